"""How backward is entered: torch's own way in, for a while replaced by one that takes a mode along."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.capture._recorder import in_graph_task

_autograd: Any = torch.autograd


class _Wanted(threading.local):
    """What this thread takes along; others may run backward at the same time."""

    mode: TorchFunctionMode | None = None


class _Way:
    """A way into backward that takes the mode of its engine along."""

    def __init__(self, engine: Engine, original: Callable[..., Any]) -> None:
        self._engine, self.original = engine, original
        self.is_done = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = self._engine.mode_here()
        if mode is None or self.is_done:
            return self.original(*args, **kwargs)
        with mode:
            return self.original(*args, **kwargs)


class Engine:
    """Replaces the way in while any thread needs it, and puts torch's own back when none does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._way: _Way | None = None
        self._wanted = _Wanted()
        self._mode: TorchFunctionMode | None = None

    def mode_here(self) -> TorchFunctionMode | None:
        """Return what this thread takes along; one that runs part of some backward, what that does."""
        return self._wanted.mode or (self._mode if in_graph_task() else None)

    @contextmanager
    def patched(self, mode: TorchFunctionMode) -> Iterator[None]:
        """Let what this thread runs backward be seen by `mode`."""
        before, self._wanted.mode = self._wanted.mode, mode
        with self._lock:
            if self._way is None:
                self._mode = mode
                self._way = _autograd._engine_run_backward = _Way(self, _autograd._engine_run_backward)
            self._users += 1
        try:
            yield
        finally:
            self._wanted.mode = before
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._restore()

    def _restore(self) -> None:
        """Put torch's own back, unless another recording has replaced ours meanwhile: then that will do it."""
        if self._way is not None:
            self._way.is_done = True
        while isinstance(_autograd._engine_run_backward, _Way) and _autograd._engine_run_backward.is_done:
            _autograd._engine_run_backward = _autograd._engine_run_backward.original
        self._way = self._mode = None
