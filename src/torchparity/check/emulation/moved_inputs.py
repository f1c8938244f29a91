"""Inputs moved by what a dtype's arithmetic cannot tell apart."""

from __future__ import annotations

import torch

_ULPS = 2.0  # of the tested dtype, on average one
_HALF_BITS = 10
_BITS_OF_SUMS = 20  # float32, in which devices keep the sums of half-precision numbers, less a few for its own error
# Attention rounds its probabilities, batch_norm its scale and shift, the others what they go on computing with.
_ROUND_INSIDE = frozenset(
    "scaled_dot_product_attention multi_head_attention_forward batch_norm instance_norm prod cumprod logit lstm gru "
    "rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split()
)


def moved(tensor: torch.Tensor, tested: torch.dtype, number: int, api: str) -> torch.Tensor:
    """Return a copy with each number moved towards zero by a random share of two ULPs of the tested dtype.

    For half precision they are moved by far less: its inputs are exact, and its sums are kept in float32, but
    for the few APIs whose kernels round inside. Zeros stay zero, and integers as they are. Towards zero, because 1
    may be the end of the function's domain.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
        return tensor.detach().clone()
    bits = fraction_bits(tested)
    if bits <= _HALF_BITS and not rounds_inside(api):
        bits = _BITS_OF_SUMS
    copy = tensor.detach().clone()
    return copy.mul_(1 - _ULPS * 2.0**-bits * uniform(tensor, 2 * number))


def rounds_inside(api: str) -> bool:
    """Tell whether kernels of an API round to half precision before the end."""
    return api.rpartition(".")[2].rstrip("_") in _ROUND_INSIDE


def uniform(like: torch.Tensor, seed: int) -> torch.Tensor:
    """Return numbers between 0 and 1 of a tensor's shape, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32
    return torch.rand(like.shape, generator=generator, dtype=wide)


def fraction_bits(dtype: torch.dtype) -> int:
    """Return the bits of a dtype's fraction; a complex dtype has those of its parts."""
    return -int(torch.tensor(torch.finfo(dtype).eps).log2().item())
