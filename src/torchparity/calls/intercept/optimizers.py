"""Sees when an optimizer begins and ends: its calls have it as their parent, and its kernels write unseen."""

from __future__ import annotations

import sys
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torchparity.calls.dispatcher import Dispatcher


class OptimizerInterceptor:
    """Hooks the steps of every optimizer while attached.

    Where calls are not listened to (`sees_calls` is off) nobody saw what an optimizer of torch's
    wrote either; those of others write parameters without bumping `Tensor._version`.
    """

    def __init__(self, dispatcher: Dispatcher, *, sees_calls: bool) -> None:
        self._dispatcher, self._sees_calls = dispatcher, sees_calls
        self._handles: list[Any] = []

    def attach(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(self._enter),
            register_optimizer_step_post_hook(self._leave),
        ]

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter(self, *_: Any) -> None:
        self._dispatcher.boundary.run("optimizer", self._dispatcher.nesting.enter_optimizer, sys._getframe(1))

    def _leave(self, optimizer: Any, *_: Any) -> None:
        self._dispatcher.boundary.run("optimizer", self._left, optimizer)

    def _left(self, optimizer: Any) -> None:
        self._dispatcher.nesting.leave_optimizer()
        if not self._sees_calls or not type(optimizer).__module__.startswith("torch.optim."):
            self._dispatcher.memory.wrote_unseen("optimizer")
