"""Takes our function mode along into backward, so that what a custom backward or a recomputation calls is seen.

torch's entry into autograd's engine is replaced while any thread needs it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.mode_stack import is_on, put_below, take_off
from torchparity.calls.guard.patches import Patches

_CREATE_GRAPH = 3  # the place of that argument


class _Thread(threading.local):
    """True where this thread takes the mode along; others may run backward at the same time."""

    is_wanted = False


class BackwardEntry:
    """Replaces the entry while it is open in any thread, and puts torch's own back when it is in none."""

    def __init__(self, mode: TorchFunctionMode, dispatcher: Dispatcher) -> None:
        self._mode, self._dispatcher = mode, dispatcher
        self._lock = threading.Lock()
        self._users = 0
        self._patches = Patches()
        self._thread = _Thread()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let the mode see what a backward that this thread starts calls."""
        before, self._thread.is_wanted = self._thread.is_wanted, True
        with self._lock:
            if not self._patches:
                self._patches.put(torch.autograd, "_engine_run_backward", self._taking_the_mode_along)
            self._users += 1
        try:
            yield
        finally:
            self._thread.is_wanted = before
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._patches.end()

    def _taking_the_mode_along(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            if not self._users or not self._is_wanted_here() or is_on(self._mode):
                return original(*args, **kwargs)
            makes_graph = len(args) > _CREATE_GRAPH and bool(args[_CREATE_GRAPH])
            self._dispatcher.makes_graph(int(makes_graph))
            try:
                return self._with_mode(original, args, kwargs)
            finally:
                self._dispatcher.makes_graph(-int(makes_graph))

        return run_backward

    def _with_mode(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            try:
                put_below(self._mode)
                return original(*args, **kwargs)
            finally:
                take_off(self._mode)  # unless somebody has stopped meanwhile
        except BaseException:
            take_off(self._mode)  # the handler of a signal may have raised while it was taken off
            raise

    def _is_wanted_here(self) -> bool:
        """Tell whether this thread asked for it, or runs part of some backward."""
        return self._thread.is_wanted or torch._C._current_graph_task_id() != -1
