"""The place of our function mode on a thread's stack; others may have entered theirs below and above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat, starmap
from typing import TypeVar

import torch
from torch.overrides import TorchFunctionMode

from torchparity.calls.guard.exhausting import exhaust

Mode = TypeVar("Mode", bound=TorchFunctionMode)
_push: Callable[[TorchFunctionMode], None] = torch._C._push_on_torch_function_stack


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
    place = _place_of(mode)
    if place is not None:
        modes = modes_of(TorchFunctionMode)
        del modes[place]
        _exchange(modes)
    return place


def put_back(mode: TorchFunctionMode, place: int) -> None:
    """Put `mode` where it was, unless it is there."""
    modes = modes_of(TorchFunctionMode)
    if not any(each is mode for each in modes):
        modes.insert(place, mode)
        _exchange(modes)


@contextmanager
def without(mode: TorchFunctionMode) -> Iterator[bool]:
    """Take `mode` off this thread's stack meanwhile; yield whether it was on it."""
    place = _place_of(mode)
    try:
        if place is not None:  # an interrupt may come as soon as it is off
            take_off(mode)
        yield place is not None
    finally:
        if place is not None:
            try:
                put_back(mode, place)
            except BaseException:  # the handler of a signal raised in its middle
                put_back(mode, place)
                raise


def _place_of(mode: TorchFunctionMode) -> int | None:
    return next((place for place, each in enumerate(modes_of(TorchFunctionMode)) if each is mode), None)


def _exchange(modes: list[TorchFunctionMode]) -> None:
    """Let this thread's stack have these modes and no others.

    No step of Python's comes in between: what a signal's handler raised there would leave the user without modes.
    """
    pops = repeat((), torch._C._len_torch_function_stack())
    exhaust(chain(starmap(torch._C._pop_torch_function_stack, pops), map(_push, modes)))
