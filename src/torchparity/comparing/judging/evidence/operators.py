"""Operators that the judge treats apart: those that draw random numbers, return raw memory, or communicate."""

from __future__ import annotations

from functools import lru_cache

from torchparity.communication.transfers import communicates as is_communication
from torchparity.overwrites import RAW_MEMORY
from torchparity.spellings import canonical_operator

_DRAWING = frozenset(
    (
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli"),
        *("multinomial", "poisson", "binomial", "uniform", "random", "exponential", "geometric", "cauchy"),
        *("log_normal", "gumbel_softmax", "rrelu", "fractional_max_pool2d", "fractional_max_pool3d"),
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"),
        *("feature_alpha_dropout", "native_dropout"),
    )
)
_DRAWING_WITH_A_RATE = {
    "scaled_dot_product_attention": ("input.dropout_p", "input.4"),
    "multi_head_attention_forward": ("input.dropout_p",),
    "lstm": (),
    "gru": (),
    "rnn_tanh": (),
    "rnn_relu": (),
}
_CHOOSING = frozenset(
    (*("sort", "argsort", "topk", "max", "min", "argmax", "argmin", "median", "kthvalue", "mode", "msort", "unique"),)
)
_ROUNDING = (
    *("norm", "softmax", "sum", "mean", "exp", "log", "gelu", "silu", "tanh", "sigmoid", "rsqrt", "loss", "entropy"),
    *("matmul", "mm", "linear", "conv", "attention", "einsum", "lstm", "gru"),
)


def operator_of(record: str) -> str:
    """Return the canonical, lower-case operator of a record, or the class of a module: `linear`, `add`, `batchnorm2d`.

    In-place calls lose their underscore: `add_` is `add`. Of a name without a grammar it is any part.
    """
    parts = record.rsplit(".", 3)
    return _plain(parts[-3]) if len(parts) > 2 else ""


@lru_cache(maxsize=4096)
def _plain(operator: str) -> str:
    last = canonical_operator(operator).lower()
    return last if last.startswith("_") and last.endswith("__") else last.rstrip("_") or last


def draws(record: str) -> bool:
    """Tell whether calls of this name may draw random numbers."""
    operator = operator_of(record)
    return operator in _DRAWING or operator in _DRAWING_WITH_A_RATE


def rate_items(record: str) -> tuple[str, ...] | None:
    """Return the items one of which must not be zero for a call to draw; None where every call draws."""
    return _DRAWING_WITH_A_RATE.get(operator_of(record))


def returns_raw_memory(record: str) -> bool:
    """Tell whether a call returns memory that nobody has written."""
    return operator_of(record) in RAW_MEMORY


def communicates(record: str) -> bool:
    """Tell whether a record is a call that moves tensors between ranks."""
    return is_communication(record)


def writes_in_place(record: str) -> bool:
    """Tell whether a call is named as one that writes to its argument: `add_`."""
    parts = record.rsplit(".", 3)
    return len(parts) > 2 and parts[-3].endswith("_") and not parts[-3].endswith("__")


def rounds(record: str) -> bool:
    """Tell whether an operator adds up many numbers or computes a function of them, so that its result is rounded."""
    return _is_rounding(operator_of(record))


@lru_cache(maxsize=4096)
def _is_rounding(operator: str) -> bool:
    return any(word in operator for word in _ROUNDING)


def chooses(record: str) -> bool:
    """Tell whether an operator returns indices, which may be any of several where values are equal."""
    return operator_of(record) in _CHOOSING
