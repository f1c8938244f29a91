"""Products of halves in float32 by a shorter way than raising both factors, on devices that have one.

A product of two numbers of float16 or bfloat16 is exact in float32, so only the sums have to be in float32. That is
what tensor cores compute, several times faster than they or others multiply float32. Some rows are computed from
raised factors all the same: a wrong kernel that the call and the shorter way share cannot hide there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from torchparity.devices import device_for

_HALVES = frozenset({torch.float16, torch.bfloat16})
_RAISED_ROWS = 32  # of each matrix; one with hardly more is raised as a whole

Product = Callable[..., "torch.Tensor | None"]


class _Way(NamedTuple):
    """A function for products, and how many arguments it takes."""

    function: Product
    arguments: range


def shorter_way(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Product | None:
    """Return another function for the same product, which takes halves and returns float32; None where none is known.

    It returns None for factors that it cannot take.
    """
    if not isinstance(function, (BuiltinFunctionType, MethodDescriptorType)):  # one of a user's may have no hash
        return None
    way = _WAYS.get(function)
    if way is None or not args or not kwargs.keys() <= _KEYWORDS or len(args) + len(kwargs) not in way.arguments:
        return None
    return None if device_for(args[0].device).is_host else way.function


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor | None:
    product = _product(input, weight.t()) if weight.dim() == 2 else None
    return product if product is None or bias is None else product.add_(bias)


def _added(addend: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    product = _product(left, right)
    return None if product is None else product.add_(addend)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    are_alike = left.dtype is right.dtype and left.device == right.device
    if not are_alike or left.dtype not in _HALVES or left.dim() < 2:
        return None
    if right.dim() == 2:
        rows, factor = left.reshape(-1, left.shape[-1]), right
    elif left.dim() > 2 and left.shape[:-2] == right.shape[:-2]:
        rows, factor = left.flatten(0, -3), right.flatten(0, -3)
    else:
        return None
    step = rows.shape[-2] // _RAISED_ROWS
    product = device_for(left.device).float32_product(rows, factor) if step > 1 else None
    if product is None:
        return None
    product[..., ::step, :] = rows[..., ::step, :].float() @ factor.float()
    return product.view(*left.shape[:-1], right.shape[-1])


_OF_TWO, _OF_THREE = _Way(_product, range(2, 3)), _Way(_added, range(3, 4))
_KEYWORDS = frozenset({"weight", "bias"})  # others than these say how a product is computed
_WAYS: Mapping[Callable[..., Any], _Way] = {
    functional.linear: _Way(_linear, range(2, 4)),
    **dict.fromkeys((torch.matmul, torch.mm, torch.bmm), _OF_TWO),
    **dict.fromkeys((torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.bmm), _OF_TWO),
    **dict.fromkeys((torch.addmm, torch.baddbmm, torch.Tensor.addmm, torch.Tensor.baddbmm), _OF_THREE),
}
