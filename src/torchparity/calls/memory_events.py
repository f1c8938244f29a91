"""Events of memory beside the calls that listeners hear of: it is written, handed out, lent to a transfer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from torchparity.calls.guard.boundary import guarded
from torchparity.calls.listener import Listener
from torchparity.ops import Op


class MemoryEvents:
    """Tells all listeners; inside the boundary. `what` names the call or the reason where a listener fails."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners

    def exposed(self, what: str, tensors: Sequence[torch.Tensor]) -> None:
        """Tell that memory is handed out, which may from now on be written without a new version."""
        for listener in self._listeners:
            guarded(listener.failures, what, listener.exposed, tensors)

    def lent(self, what: str, tensors: Sequence[torch.Tensor]) -> None:
        """Tell that a transfer may write memory until it is done."""
        for listener in self._listeners:
            guarded(listener.failures, what, listener.lent, tensors)

    def returned(self, what: str, tensors: Sequence[torch.Tensor]) -> None:
        """Tell that a transfer is done with memory that was lent to it."""
        for listener in self._listeners:
            guarded(listener.failures, what, listener.returned, tensors)

    def wrote(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Tell that a call which nobody listened to may have written into its arguments."""
        for listener in self._listeners:
            guarded(listener.failures, op.name, listener.wrote, op, args, kwargs)

    def passed(self, op: Op, args: Sequence[Any], kwargs: dict[str, Any], output: Any) -> None:
        """Tell that a call which nobody listened to may have made new memory of its arguments."""
        for listener in self._listeners:
            guarded(listener.failures, op.name, listener.passed, op, args, kwargs, output)

    def ran_unseen(self, what: str, *, only_backward: bool) -> None:
        """Tell that calls were made which no interceptor sees."""
        for listener in self._listeners:
            guarded(listener.failures, what, partial(listener.ran_unseen, only_backward=only_backward))

    def wrote_unseen(self, what: str) -> None:
        """Tell that any memory may have been written by something that no interceptor sees."""
        for listener in self._listeners:
            guarded(listener.failures, what, listener.wrote_unseen)
