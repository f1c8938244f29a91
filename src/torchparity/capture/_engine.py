"""How backward is entered: torch's own way in, for a while replaced by one that takes a mode along."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_autograd: Any = torch.autograd


class _Wanted(threading.local):
    """What this thread takes along; others may run backward at the same time."""

    mode: TorchFunctionMode | None = None


class Engine:
    """Replaces the way in while any thread needs it, and puts torch's own back when none does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._original: Any = None
        self._wanted = _Wanted()

    @contextmanager
    def patched(self, mode: TorchFunctionMode) -> Iterator[None]:
        """Let what this thread runs backward be seen by `mode`."""
        before, self._wanted.mode = self._wanted.mode, mode
        with self._lock:
            if self._users == 0:
                self._original = _autograd._engine_run_backward
                _autograd._engine_run_backward = self._watched(self._original)
            self._users += 1
        try:
            yield
        finally:
            self._wanted.mode = before
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    _autograd._engine_run_backward = self._original

    def _watched(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            mode, self._wanted.mode = self._wanted.mode, None
            if mode is None:
                return run(*args, **kwargs)
            with mode:
                return run(*args, **kwargs)

        return watched
