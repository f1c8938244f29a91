"""Keeps what numba logs of compiling our loops out of a program that logs everything: some 20,000 lines."""

from __future__ import annotations

import logging
import threading

from numba.core.event import Event, Listener, register

_OURS = __name__.partition(".")[0]


class QuietCompiler(Listener):
    """Raises the level of numba's logger while loops of ours are compiled, and of nothing else."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("numba")
        self._lock = threading.Lock()
        self._depth = 0  # a loop that calls others has them compiled meanwhile
        self._level = logging.NOTSET

    def on_start(self, event: Event) -> None:
        with self._lock:
            if _is_ours(event):
                if not self._depth:
                    self._level = self._logger.level
                    self._logger.setLevel(max(self._level, logging.WARNING))
                self._depth += 1

    def on_end(self, event: Event) -> None:
        with self._lock:
            if _is_ours(event):
                self._depth -= 1
                if not self._depth:
                    self._logger.setLevel(self._level)


def _is_ours(event: Event) -> bool:
    function = event.data["dispatcher"].py_func
    return str(function.__module__).partition(".")[0] == _OURS


register("numba:compile", QuietCompiler())  # type: ignore[no-untyped-call]
