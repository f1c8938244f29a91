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


class _Here(threading.local):
    """Whether this thread takes the mode along; others may run backward at the same time."""

    is_wanted = False


class _Way:
    """A way into backward that takes the mode of its engine along."""

    def __init__(self, engine: Engine, original: Callable[..., Any]) -> None:
        self._engine, self.original = engine, original
        self.is_done = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.is_done or not self._engine.is_wanted_here:
            return self.original(*args, **kwargs)
        with self._engine.mode:
            return self.original(*args, **kwargs)


class Engine:
    """Replaces the way in while any thread needs it, and puts torch's own back when none does."""

    def __init__(self, mode: TorchFunctionMode) -> None:
        self.mode = mode
        self._lock = threading.Lock()
        self._users = 0
        self._way: _Way | None = None
        self._here = _Here()

    @property
    def is_wanted_here(self) -> bool:
        """Whether this thread asked for it, or runs part of some backward."""
        return self._here.is_wanted or in_graph_task()

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Let what this thread runs backward be seen by the mode."""
        before, self._here.is_wanted = self._here.is_wanted, True
        with self._lock:
            if self._way is None:
                self._way = _autograd._engine_run_backward = _Way(self, _autograd._engine_run_backward)
            self._users += 1
        try:
            yield
        finally:
            self._here.is_wanted = before
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
        self._way = None
