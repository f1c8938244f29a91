"""Tensors compared by their bits, so that nan equals itself and -0.0 is not 0.0."""

from __future__ import annotations

import torch


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have one dtype, one shape and the same bits."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return left.numel() == 0 or torch.equal(_bytes_of(left), _bytes_of(right))


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    # torch.empty: a contiguous copy with plain strides, which view() needs.
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach()).reshape(-1).view(torch.uint8)
