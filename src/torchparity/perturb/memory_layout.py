"""Copies that lie in memory as their originals do: kernels go other ways for other strides, and round otherwise."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.subject import CancelledError

_ALIGNMENT = 64  # bytes: kernels load no more at a time
_MOST_BYTES_BETWEEN = 1 << 30  # the elements of a tensor, which a copy takes as well


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the strides of a tensor, as far from a multiple of 64 bytes as that one, and no view.

    Gradients pass through it, as through a clone. Elements that share memory share it in the copy too. Raises
    `CancelledError` for few elements of much memory.
    """
    if not tensor.numel() or tensor.is_neg() or tensor.is_conj():
        return tensor.clone()
    if tensor.requires_grad and torch.is_grad_enabled():
        copy: torch.Tensor = _Copied.apply(tensor)  # type: ignore[no-untyped-call]
        return copy
    numbers, shift = numbers_in_memory(tensor), _shift(tensor)
    memory = torch.empty(shift + numbers.numel(), dtype=tensor.dtype, device=tensor.device)
    memory[shift:].copy_(numbers)
    return memory.as_strided(tensor.shape, tensor.stride(), shift).detach()


def numbers_in_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of a tensor from its first element to its last as one row, with what lies in between."""
    length = 1 + _reach(tensor)
    if (length - tensor.numel()) * tensor.element_size() > _MOST_BYTES_BETWEEN:
        raise CancelledError("its input lies scattered over too much memory to be copied")
    return tensor.detach().as_strided((length,), (1,), tensor.storage_offset())


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether torch's own results for a tensor's elements one by one lie as it does: densely, and aligned."""
    if tensor.data_ptr() % _ALIGNMENT:
        return False
    return tensor.is_contiguous() or (_reach(tensor) == tensor.numel() - 1 and not shares_elements(tensor))


def shares_elements(tensor: torch.Tensor) -> bool:
    """Tell whether several elements of a tensor may be one number in memory."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return copied(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


def _reach(tensor: torch.Tensor) -> int:
    """Return how far in memory the last element is from the first."""
    return sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _shift(tensor: torch.Tensor) -> int:
    """Return how many elements a tensor begins after a multiple of 64 bytes."""
    return tensor.data_ptr() % _ALIGNMENT // tensor.element_size()
