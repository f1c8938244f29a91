"""How backward is entered: torch's own way in, for a while replaced by one that takes a mode along."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchparity.calls.guard.mode_stack import is_on, put_below, take_off
from torchparity.calls.guard.patches import Patches
from torchparity.recording.step.recorder import Recorder, in_graph_task

_CREATE_GRAPH = 3  # the place of that argument


class _Here(threading.local):
    """Whether this thread takes the mode along; others may run backward at the same time."""

    is_wanted = False


class Engine:
    """Replaces the way in while any thread needs it, and puts torch's own back when none does."""

    def __init__(self, mode: TorchFunctionMode, recorder: Recorder) -> None:
        self._mode, self._recorder = mode, recorder
        self._lock = threading.Lock()
        self._users = 0
        self._patches = Patches()
        self._here = _Here()

    @property
    def _is_wanted_here(self) -> bool:
        """Whether this thread asked for it, or runs part of some backward."""
        return self._here.is_wanted or in_graph_task()

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Let what this thread runs backward be seen by the mode."""
        before, self._here.is_wanted = self._here.is_wanted, True
        with self._lock:
            if not self._patches:
                self._patches.put(torch.autograd, "_engine_run_backward", self._taking_the_mode_along)
            self._users += 1
        try:
            yield
        finally:
            self._here.is_wanted = before
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._patches.end()

    def _taking_the_mode_along(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            if not self._users or not self._is_wanted_here or is_on(self._mode):
                return original(*args, **kwargs)
            makes_graph = len(args) > _CREATE_GRAPH and bool(args[_CREATE_GRAPH])
            self._recorder.graphs_made += makes_graph
            put_below(self._mode)
            try:
                return original(*args, **kwargs)
            finally:
                take_off(self._mode)  # unless somebody has stopped meanwhile
                self._recorder.graphs_made -= makes_graph

        return run_backward
