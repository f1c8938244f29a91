"""Tensors compared by their bits, so that nan equals itself and -0.0 is not 0.0."""

from __future__ import annotations

import torch


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have one dtype, one shape and the same bits."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return left.numel() == 0 or torch.equal(_bytes_of(left), _bytes_of(right))


def same(left: object, right: object) -> bool:
    """Whether two states, nested in lists and mappings, are the same to the bit."""
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and same_bits(left, right)
    if isinstance(left, dict):
        return (
            isinstance(right, dict) and left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
        )
    if isinstance(left, (list, tuple)):
        return isinstance(right, (list, tuple)) and len(left) == len(right) and all(map(same, left, right))
    return left == right


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    # torch.empty: a contiguous copy with plain strides, which view() needs.
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach()).reshape(-1).view(torch.uint8)
