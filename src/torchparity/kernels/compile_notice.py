"""A line for the user while kernels are compiled, which nobody should have to guess at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger("torchparity")
_PATIENCE = 0.5  # seconds; code that was compiled before is loaded in less


class CompileNotice:
    """Tells once that kernels for some device are being compiled, where that takes long enough to be noticed.

    `has_begun` tells code that is compiled from code that is only loaded, which a busy machine does slowly too.
    """

    def __init__(
        self, device: str, *, patience: float = _PATIENCE, has_begun: Callable[[], bool] = lambda: True
    ) -> None:
        self._device, self._patience, self._has_begun = device, patience, has_begun
        self._has_told = False

    @contextmanager
    def while_compiling(self) -> Iterator[None]:
        """Compile inside; the line comes while that lasts."""
        if self._has_told:
            yield
            return
        is_over = threading.Event()
        threading.Thread(target=self._tell_unless, args=(is_over,), daemon=True).start()
        try:
            yield
        finally:
            is_over.set()

    def _tell_unless(self, is_over: threading.Event) -> None:
        while not is_over.wait(self._patience):
            if self._has_begun():
                self._has_told = True
                _log.warning(
                    "torchparity compiles its kernels for %s, which takes some seconds and is needed once.",
                    self._device,
                )
                return
