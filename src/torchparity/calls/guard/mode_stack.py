"""The place of our function mode on a thread's stack; others may have entered theirs below and above it."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

Mode = TypeVar("Mode", bound=TorchFunctionMode)


def is_on(mode: TorchFunctionMode) -> bool:
    """Tell whether `mode` is on this thread's stack; autograd's threads have that of whoever called backward."""
    return any(each is mode for each in modes_of(TorchFunctionMode))


def modes_of(kind: type[Mode]) -> list[Mode]:
    """Return the modes of a kind on this thread's stack."""
    modes = [torch._C._get_function_stack_at(index) for index in range(torch._C._len_torch_function_stack())]
    return [mode for mode in modes if isinstance(mode, kind)]


def put_below(mode: TorchFunctionMode) -> None:
    """Put `mode` below those of others, who take off the uppermost when they end; above the default device's.

    That one must stay at the bottom, or torch cannot take it off. Where `mode` is on already it stays: torch puts
    back what was taken off within a call that it was handing on.
    """
    modes = modes_of(TorchFunctionMode)
    if mode in modes:
        return
    default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    put_back(mode, 1 if modes and modes[0] is default else 0)


def take_off(mode: TorchFunctionMode) -> int | None:
    """Take `mode` off this thread's stack and return its place; None where it is not on it.

    It is not within a call that it is just handing on, nor in a thread in which nothing was started.
    """
    modes = _pop_all()
    place = next((index for index, each in enumerate(modes) if each is mode), None)
    if place is not None:
        del modes[place]
    _push_all(modes)
    return place


def put_back(mode: TorchFunctionMode, place: int) -> None:
    """Put `mode` where it was."""
    modes = _pop_all()
    modes.insert(place, mode)
    _push_all(modes)


def _pop_all() -> list[TorchFunctionMode]:
    modes = [_pop_mode() for _ in range(torch._C._len_torch_function_stack())]  # type: ignore[no-untyped-call]
    return modes[::-1]


def _push_all(modes: list[TorchFunctionMode]) -> None:
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]
