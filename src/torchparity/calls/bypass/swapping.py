"""Keeps our hooks off parameters while torch swaps them for others, as `module.double()` may do.

A parameter that is swapped while it has a table of hooks on its gradient loses them, and those that are registered
later too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch

from torchparity.calls.guard.inert_hooks import HookedParameter, remove_empty_table
from torchparity.calls.guard.patches import Patches


class Hooks(Protocol):
    """Hooks on parameters, as they are asked for those on tensors that are swapped."""

    def hooks_on(self, tensors: Sequence[torch.Tensor]) -> Iterable[tuple[str, HookedParameter, torch.Tensor]]: ...

    def note_swapped(self, name: str) -> None: ...


class SwappingGuard:
    """Wraps the function that swaps tensors while attached."""

    def __init__(self, *parameters: Hooks) -> None:
        self._parameters = parameters
        self._patches = Patches()

    def attach(self) -> None:
        if not self._patches:
            self._patches.put(torch.utils, "swap_tensors", self._without_hooks)

    def detach(self) -> None:
        self._patches.end()

    def _without_hooks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def swap(*arguments: Any, **named: Any) -> Any:
            tensors = [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
            ours = [(hooks, *entry) for hooks in self._parameters for entry in hooks.hooks_on(tensors)]
            for _, _, hooked, _ in ours:
                hooked.take_off()
            for tensor in tensors:
                remove_empty_table(tensor)
            lost = {id(tensor) for tensor in tensors if tensor._post_accumulate_grad_hooks is not None}
            try:
                return original(*arguments, **named)
            finally:
                for hooks, name, hooked, tensor in ours:
                    if id(tensor) in lost:
                        hooks.note_swapped(name)
                    hooked.put_on(tensor)

        return swap
