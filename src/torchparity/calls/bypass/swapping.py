"""Keeps our hooks off parameters while torch swaps them for others, as `module.double()` may do.

A parameter that is swapped while it has hooks on its gradient loses them, and those that are registered later too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch

from torchparity.calls.guard.patches import Patches

HooksOff = Callable[[Sequence[torch.Tensor]], AbstractContextManager[None]]  # keeps ours off some tensors meanwhile


class SwappingGuard:
    """Wraps the function that swaps tensors while attached."""

    def __init__(self, *hooks_off: HooksOff) -> None:
        self._hooks_off = hooks_off
        self._patches = Patches()

    def attach(self) -> None:
        if not self._patches:
            self._patches.put(torch.utils, "swap_tensors", self._without_hooks)

    def detach(self) -> None:
        self._patches.end()

    def _without_hooks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def swap(*tensors: Any, **named: Any) -> Any:
            with ExitStack() as off:
                for hooks_off in self._hooks_off:
                    off.enter_context(hooks_off([*tensors, *named.values()]))
                return original(*tensors, **named)

        return swap
