"""The bits of floating-point tensors: which elements can be moved by a last bit, and their bits as integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from torchparity.perturb.memory_layout import copied, is_plain, numbers_in_memory
from torchparity.perturb.subject import CancelledError, Moved, Subject

_INTEGERS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
BitChange = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of bits, and of the mask of what may move


def has_bits(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's elements can be moved by a last bit."""
    return (tensor.dtype in _INTEGERS or tensor.is_complex()) and tensor.numel() > 0


def with_noise(subject: Subject, changes: Iterable[BitChange]) -> list[torch.Tensor]:
    """Return a call's tensors, each floating-point one with its bits changed by the next change while there is one.

    Only normal numbers move: what is zero, tiny or not finite stays.
    """
    check_has_bits(subject)
    turns = iter(changes)
    return [
        bits_changed(tensor, change) if has_bits(tensor) and (change := next(turns, None)) else tensor
        for tensor in subject.tensors
    ]


def check_has_floats(subject: Subject) -> None:
    """Raise where a call has no floating-point input with elements."""
    floats = [tensor for tensor in subject.tensors if tensor.is_floating_point() or tensor.is_complex()]
    if not floats:
        raise CancelledError("it has no floating-point input")
    if not any(tensor.numel() for tensor in floats):
        raise CancelledError("its input is empty")


def check_has_bits(subject: Subject) -> None:
    """Raise where a call has no input whose elements can be moved by a last bit."""
    check_has_floats(subject)
    if not any(map(has_bits, subject.tensors)):
        raise CancelledError("its inputs have too few bits for noise")


def unit_moved(moved: Moved, subject: Subject) -> float:
    """Return by what part of its size the coarsest input is moved that noise moves; 0 where none is."""
    if moved == "none":
        return 0.0
    units = [torch.finfo(tensor.dtype).eps for tensor in subject.tensors if has_bits(tensor)]
    return max(units[:1] if moved == "first" else units, default=0.0)


def bits_changed(tensor: torch.Tensor, change: BitChange) -> torch.Tensor:
    """Return a copy of a tensor with the bits of its normal numbers changed."""
    if tensor.is_complex():
        return torch.view_as_complex(bits_changed(torch.view_as_real(tensor.resolve_conj()), change))
    tensor = tensor.resolve_neg()
    if is_plain(tensor):
        return _changed(tensor, change)
    copy = copied(tensor)
    numbers = numbers_in_memory(copy)
    numbers.copy_(_changed(numbers, change))
    return copy


def _changed(numbers: torch.Tensor, change: BitChange) -> torch.Tensor:
    limits = torch.finfo(numbers.dtype)
    magnitude = numbers.abs()
    # The largest number has no neighbour; a nan compares as false.
    moves = (magnitude >= limits.tiny) & (magnitude < limits.max)
    return change(numbers.view(_INTEGERS[numbers.dtype]), moves).view(numbers.dtype)
