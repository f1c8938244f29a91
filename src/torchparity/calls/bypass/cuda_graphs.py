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

from torchparity.calls.dispatcher import Dispatcher
from torchparity.calls.guard.patches import Patches

_log = logging.getLogger("torchparity")


class CudaGraphs:
    """Wraps the methods of `torch.cuda.CUDAGraph` while attached."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._patches = Patches()
        self._warned_of: set[str] = set()

    def sentences(self) -> list[str]:
        sentences = {
            "captured": "what was captured into a CUDA graph was not recorded.",
            "replayed": "what CUDA graphs did when they were replayed was not recorded.",
        }
        return [sentence for what, sentence in sentences.items() if what in self._warned_of]

    def attach(self) -> None:
        if not self._patches:
            for name in ("capture_begin", "capture_end", "replay"):
                self._patches.put(torch.cuda.CUDAGraph, name, functools.partial(self._watched, name))

    def detach(self) -> None:
        self._patches.end()
        self._dispatcher.boundary.open()

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher, boundary = self._dispatcher, self._dispatcher.boundary

        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if name == "capture_begin":
                self._warn_once("captured")
                boundary.close()
            try:
                return original(*args, **kwargs)
            finally:
                if name == "capture_end":
                    boundary.open()
                elif name == "replay":
                    self._warn_once("replayed")
                    boundary.run("CUDAGraph.replay", dispatcher.memory.wrote_unseen, "CUDAGraph.replay")

        return watched

    def _warn_once(self, what: str) -> None:
        if what not in self._warned_of:
            self._warned_of.add(what)
            _log.warning("torchparity skips CUDA graphs: what is %s is not recorded", what)
