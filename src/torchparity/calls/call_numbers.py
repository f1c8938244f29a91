"""The numbers of calls: how often each function was called before in the step."""

from __future__ import annotations

import sys
import threading

import torch
import torch.utils.checkpoint

from torchparity.calls.guard.frames import Stack
from torchparity.naming import RECOMPUTE_MARK


class CallNumbers:
    """Counts the calls of one step; used from the training's thread and from autograd's.

    A recomputed forward runs inside backward with gradients on; it has numbers of its own, so that
    the other calls keep theirs whether or not activations are recomputed.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._lock = threading.Lock()
        self._graph_makers = 0

    def next(self, name: str) -> tuple[int, str]:
        """Count a call; return its number and its mark."""
        is_recomputed = torch._C._current_graph_task_id() != -1 and torch.is_grad_enabled() and self._is_recomputing()
        mark = RECOMPUTE_MARK if is_recomputed else ""
        with self._lock:
            number = self._next.get(name + mark, 0)
            self._next[name + mark] = number + 1
        return number, mark

    def begin_step(self) -> None:
        """Number calls from 0 again."""
        with self._lock:
            self._next.clear()

    def makes_graph(self, passes: int) -> None:
        """Note that a backward pass with `create_graph` began (1) or ended (-1)."""
        self._graph_makers += passes

    def _is_recomputing(self) -> bool:
        """Tell recomputation from a backward that makes a graph of its own, in which gradients are on too."""
        return not self._graph_makers or Stack(sys._getframe()).runs_code_of(torch.utils.checkpoint.__file__)
