"""The results of APIs that are compared: numbers that are defined, and no places of elements."""

from __future__ import annotations

import torch

from torchparity.ops import Kind, Op
from torchparity.perturb.apis import function_of
from torchparity.perturb.subject import has_plain_values

_NUMBERS = frozenset({"item", "tolist", "__bool__", "__int__", "__float__", "__complex__", "__index__"})
# Results that say where something is: of equal elements they may name any.
_PLACES = frozenset({"argmax", "argmin", "argsort", "searchsorted", "bucketize"})
# Functions of which all results but the first say that.
_THEN_PLACES = frozenset(
    {
        *("max", "min", "topk", "sort", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin"),
        *("unique", "unique_consecutive", "max_pool1d", "max_pool2d", "max_pool3d"),
        *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"),
        *("fractional_max_pool2d", "fractional_max_pool3d"),
    }
)
# Results of which only one is defined: vectors may have either sign.
_DEFINED = {"svd": 1, "eigh": 0}


def returns_number(op: Op) -> bool:
    """Tell whether calls of a function return a number of Python's."""
    return op.kind is Kind.COMPUTES and function_of(op.name) in _NUMBERS


def is_judged(api: str, place: int, tensor: torch.Tensor) -> bool:
    """Tell whether one of the results of an API is compared."""
    name = function_of(api)
    if not has_plain_values(tensor) or _DEFINED.get(name, place) != place:
        return False
    if tensor.is_floating_point() or tensor.is_complex():
        return True
    return name not in _PLACES and not (place and name.removesuffix("_with_indices") in _THEN_PLACES)
