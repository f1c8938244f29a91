"""The table of standards: the family of an API decides by which metric it is judged, and how strictly."""

from __future__ import annotations

from enum import Enum
from functools import cache

from torchparity.check.judging.float_formats import FloatFormat
from torchparity.spellings import canonical_operator


class Standard(str, Enum):
    """A way to judge a result; docs/check-standards.md has the formula of each."""

    BINARY = "binary consistency"
    ABSOLUTE = "absolute threshold"
    ULP = "ULP"
    THOUSANDTH = "thousandth"
    BENCHMARK = "benchmark"

    def __str__(self) -> str:
        return self.value


_FAMILIES = {
    # What moves, selects, compares or rounds numbers makes no new ones.
    Standard.BINARY: """
        abs neg positive sign signbit floor ceil round trunc clamp clamp_min clamp_max relu relu6 hardtanh threshold
        pad sort argsort msort topk kthvalue max min amax amin maximum minimum fmax fmin argmax argmin median mode
        gather scatter index_select take take_along_dim masked_fill masked_select where index_fill index_copy
        transpose permute t reshape view view_as flatten unflatten squeeze unsqueeze expand expand_as contiguous clone
        detach copy cat stack hstack vstack dstack split chunk unbind narrow select slice repeat repeat_interleave tile
        roll flip fliplr flipud rot90 movedim diag diagonal diag_embed tril triu unfold as_strided __getitem__
        __setitem__ getitem setitem eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_not
        logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor fill zero zeros zeros_like ones ones_like full
        full_like empty empty_like nonzero one_hot embedding nan_to_num broadcast_to max_pool1d max_pool2d max_pool3d
        adaptive_max_pool1d adaptive_max_pool2d pixel_shuffle pixel_unshuffle channel_shuffle bool int long
    """,
    Standard.ABSOLUTE: "mul add sub rsub div rdiv reciprocal rsqrt square leaky_relu prelu",
    Standard.ULP: """
        matmul mm bmm addmm baddbmm addbmm mv addmv dot vdot inner outer addr linear bilinear einsum tensordot
        multi_dot chain_matmul rmatmul
    """,
    Standard.THOUSANDTH: "conv1d conv2d",
}
_LEVELS = {
    1: "embedding scaled_dot_product_attention npu_fusion_attention npu_fusion_attention_grad scatter scatter_add",
    2: """
        addmm cross_entropy fused_cross_entropy gelu npu_fast_gelu layer_norm matmul mm index one_hot sum rms_norm
        npu_rms_norm nonzero
    """,
}
_STANDARDS = {operator: standard for standard, names in _FAMILIES.items() for operator in names.split()}
_LEVEL_OF = {operator: level for level, names in _LEVELS.items() for operator in names.split()}
_RECURRENT = frozenset(
    {
        *("lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "_thnn_fused_lstm_cell"),
        *("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    }
)
# These are judged as the rest, but make products and convolutions, for which TF32 is used.
_USE_TF32 = _RECURRENT | {
    *("conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc", "convolution"),
    *("scaled_dot_product_attention", "multi_head_attention_forward", "_native_multi_head_attention"),
    *("_transformer_encoder_layer_fwd", "cdist", "cov", "corrcoef", "matrix_power", "matrix_exp"),
}
# One operator does all of it, so that its products are not seen from outside.
_HIDES_PRODUCTS = frozenset(
    {"matrix_exp", "_native_multi_head_attention", "_transformer_encoder_layer_fwd", "_cudnn_rnn"}
)
_THROUGH_SQUARES = frozenset({"cdist"})
_EPSILONS, _EPSILONS_OF_HALF = 32, 2


@cache
def standard_of(api: str) -> Standard:
    """Return the standard of an API, whatever its spelling: `Tensor.__iadd__` is judged as `Torch.add`."""
    return _STANDARDS.get(operator_of(api), Standard.BENCHMARK)


@cache
def level_of(api: str) -> int:
    """Return how closely an API is monitored: 0, 1 or 2."""
    return _LEVEL_OF.get(operator_of(api), 0)


def may_use_tf32(api: str) -> bool:
    """Tell whether devices compute the API in TF32 where that is allowed."""
    return standard_of(api) in (Standard.ULP, Standard.THOUSANDTH) or operator_of(api) in _USE_TF32


def hides_products(api: str) -> bool:
    """Tell whether the products of an API cannot be given other factors."""
    return operator_of(api) in _HIDES_PRODUCTS


def is_recurrent(api: str) -> bool:
    """Tell whether an API feeds its results back into itself, so that their errors grow with every step."""
    return operator_of(api) in _RECURRENT


def normwise_error(api: str, form: FloatFormat) -> float:
    """Return the error, relative to the root mean square of a result, that is normal for an API.

    None for half precision, which would hide wrong kernels; the kernels of float32 are allowed 32 epsilons.
    """
    if not form.is_half:
        return _EPSILONS * form.epsilon
    return _EPSILONS_OF_HALF * form.epsilon if goes_through_squares(api) else 0.0


def goes_through_squares(api: str) -> bool:
    """Tell whether an API takes the root of what is left of squares, which loses half of the digits near zero."""
    return operator_of(api) in _THROUGH_SQUARES


def operator_of(api: str) -> str:
    """Return the one name of an API's operator: `add` for `Tensor.__iadd__`."""
    name = canonical_operator(api).rpartition(".")[2]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name
