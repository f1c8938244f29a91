"""CUDA graphs: nothing is recorded while one is captured, and what a replay may have written is looked at again.

What we launched would become part of the user's graph, and write at every replay into
memory that has long been somebody else's. A replay itself is one call that no mode sees.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch

from torchparity.calls.guard.patches import Patches
from torchparity.recording.step.recorder import Recorder

_log = logging.getLogger("torchparity")


class GraphWatcher:
    """Wraps the methods of `torch.cuda.CUDAGraph` while attached."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._patches = Patches()
        self._has_captured = self._has_replayed = False

    def sentences(self) -> list[str]:
        said = {
            "what was captured into a CUDA graph was not recorded.": self._has_captured,
            "what CUDA graphs did when they were replayed was not recorded.": self._has_replayed,
        }
        return [sentence for sentence, is_true in said.items() if is_true]

    def attach(self) -> None:
        if not self._patches:
            for name in ("capture_begin", "capture_end", "replay"):
                self._patches.put(torch.cuda.CUDAGraph, name, functools.partial(self._watched, name))

    def detach(self) -> None:
        self._patches.end()
        self._recorder.boundary.is_closed = False

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        boundary = self._recorder.boundary

        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if name == "capture_begin":
                self._say("captured")
                boundary.is_closed = True
            try:
                return original(*args, **kwargs)
            finally:
                if name == "capture_end":
                    boundary.is_closed = False
                elif name == "replay":
                    self._say("replayed")
                    boundary.run("CUDAGraph.replay", self._recorder.measurements.invalidate_all)

        return watched

    def _say(self, what: str) -> None:
        if not getattr(self, f"_has_{what}"):
            setattr(self, f"_has_{what}", True)
            _log.warning("torchparity passes over CUDA graphs: what is %s is not recorded", what)
