"""Inputs moved by what a dtype's arithmetic cannot tell apart."""

from __future__ import annotations

from zlib import crc32

import torch

_ULPS = 2.0  # of the tested dtype, on average one
HALF_BITS = 10
_FIRST = 256  # values that tell one input from another
_BITS_OF_SUMS = 20  # float32, in which devices keep the sums of half-precision numbers, less a few for its own error
# Attention rounds its probabilities, a norm its scale and shift, a scatter every sum on the way, a loss its steps.
_ROUND_INSIDE = frozenset(
    {
        *("scaled_dot_product_attention", "multi_head_attention_forward"),
        *("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "instance_norm"),
        *("log_softmax", "cross_entropy", "soft_margin_loss", "multilabel_soft_margin_loss"),
        *("addr", "interpolate"),
        *("prod", "cumprod", "cumsum", "logit", "cross", "addbmm", "pad", "fold"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("avg_pool1d", "avg_pool2d", "avg_pool3d"),
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
        *("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
        *("index_put", "index_add", "index_reduce", "scatter_add", "scatter_reduce", "put", "unfold", "unfold_copy"),
        *("gather", "take", "take_along_dim", "index_select", "__getitem__", "_unsafe_masked_index"),
        *("embedding", "bilinear"),
        "_unsafe_masked_index_put_accumulate",
    }
)
# Places in an image are rounded at each of several steps.
_ROUND_OFTEN = frozenset({"grid_sample", "grid_sampler_2d", "grid_sampler_3d"})


def moved(tensor: torch.Tensor, tested: torch.dtype, number: int, api: str) -> torch.Tensor:
    """Return a copy with each number moved towards zero by a random share of two ULPs of the tested dtype.

    For half precision they are moved by far less: its inputs are exact, and its sums are kept in float32. Those of
    the few APIs whose kernels round inside are moved as one rounding moves them, up or down. Zeros stay zero, and
    integers as they are. Towards zero, because 1 may be the end of the function's domain.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
        return tensor.detach().clone()
    bits = fraction_bits(tested)
    copy = tensor.detach().clone()
    shares = uniform(tensor, number + _content(copy))
    if bits <= HALF_BITS and _is_among(api, _ROUND_INSIDE):
        return copy.mul_(1 + 2.0**-bits * (shares - 0.5))
    if bits <= HALF_BITS and not _is_among(api, _ROUND_OFTEN):
        bits = _BITS_OF_SUMS
    return copy.mul_(1 - _ULPS * 2.0**-bits * shares)


def _content(tensor: torch.Tensor) -> int:
    """Return a number made of the first values: two inputs of one shape must not be moved alike."""
    first = tensor.resolve_conj().resolve_neg().flatten()[:_FIRST].contiguous().cpu()
    return crc32(first.view(torch.uint8).numpy().tobytes()) << 8


def _is_among(api: str, names: frozenset[str]) -> bool:
    name = api.rpartition(".")[2]
    return name in names or name.removesuffix("_") in names


def uniform(like: torch.Tensor, seed: int) -> torch.Tensor:
    """Return numbers between 0 and 1 of a tensor's shape, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32
    return torch.rand(like.shape, generator=generator, dtype=wide)


def fraction_bits(dtype: torch.dtype) -> int:
    """Return the bits of a dtype's fraction; a complex dtype has those of its parts."""
    return -int(torch.tensor(torch.finfo(dtype).eps).log2().item())
