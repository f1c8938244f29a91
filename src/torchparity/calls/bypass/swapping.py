"""Keeps our hooks off parameters while torch swaps them for others, as `module.double()` may do.

A parameter that is swapped while it has a table of hooks on its gradient loses them, and those that are registered
later too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from torchparity.calls.guard.boundary import Boundary
from torchparity.calls.guard.inert_hooks import HookedParameter, has_hooks_of_others, remove_empty_table
from torchparity.calls.guard.patches import Patches

_REMOVES_TABLES = "_torchparity_removes_tables"


class HookedParameters(Protocol):
    """Hooks on parameters, as they are asked for those on tensors that are swapped."""

    def hooks_on(self, tensors: Sequence[torch.Tensor]) -> Iterable[tuple[str, HookedParameter, torch.Tensor]]: ...

    def note_swapped(self, name: str) -> None: ...


class _TakenOff(NamedTuple):
    """A hook of ours that is off while its tensor is swapped."""

    hooks: HookedParameters
    name: str
    hooked: HookedParameter
    tensor: torch.Tensor
    is_lost: bool  # with those of others


class SwappingGuard:
    """Wraps the function that swaps tensors while attached.

    What removes empty tables stays for good: they outlive the recording.
    """

    def __init__(self, boundary: Boundary, *parameters: HookedParameters) -> None:
        self._boundary, self._parameters = boundary, parameters
        self._patches = Patches()

    def attach(self) -> None:
        if not self._patches:
            _remove_tables_at_swaps()
            self._patches.put(torch.utils, "swap_tensors", self._without_hooks)

    def detach(self) -> None:
        self._patches.end()

    def _without_hooks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def swap(*arguments: Any, **named: Any) -> Any:
            tensors = _tensors(arguments, named)
            ours = self._boundary.run("swap_tensors", self._take_off, tensors) or ()
            try:
                return original(*arguments, **named)
            finally:
                self._boundary.run("swap_tensors", _put_on, ours)

        return swap

    def _take_off(self, tensors: Sequence[torch.Tensor]) -> list[_TakenOff]:
        ours = [(hooks, *entry) for hooks in self._parameters for entry in hooks.hooks_on(tensors)]
        for _, _, hooked, _ in ours:
            hooked.take_off()
        for tensor in tensors:
            remove_empty_table(tensor)
        return [_TakenOff(*entry, has_hooks_of_others(entry[-1])) for entry in ours]


def _put_on(ours: Sequence[_TakenOff]) -> None:
    for hooks, name, hooked, tensor, is_lost in ours:
        if is_lost:
            hooks.note_swapped(name)
        hooked.put_on(tensor)


def _remove_tables_at_swaps() -> None:
    """Let no parameter that is swapped from now on have an empty table of ours."""
    swap_tensors: Any = torch.utils.swap_tensors
    if hasattr(swap_tensors, _REMOVES_TABLES):
        return

    @functools.wraps(swap_tensors)
    def swap(*arguments: Any, **named: Any) -> Any:
        with torch._C.DisableTorchFunction():
            for tensor in _tensors(arguments, named):
                remove_empty_table(tensor)
        return swap_tensors(*arguments, **named)

    setattr(swap, _REMOVES_TABLES, True)
    torch.utils.swap_tensors = swap


def _tensors(arguments: Sequence[Any], named: Mapping[str, Any]) -> list[torch.Tensor]:
    return [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
