"""Values at the indices that a sorting or choosing API returns: of equal values any may come first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchparity.check.cases import Arguments, Input

Pick = Callable[[Any], Any]

# By operator: the output that has the indices, and the place of `dim` among the arguments.
_CHOOSING = {
    "argsort": ("0", 1),
    "sort": ("1", 1),
    "topk": ("1", 2),
    "kthvalue": ("1", 2),
    "argmax": ("0", 1),
    "argmin": ("0", 1),
    **dict.fromkeys(("max", "min", "median", "nanmedian", "mode", "cummax", "cummin"), ("1", 1)),
}
_OF_ALL = frozenset({"argmax", "argmin"})  # without `dim` they choose among all elements
_REPEATING = frozenset({"cummax", "cummin"})  # the same element may be chosen again


def picking(operator: str, arguments: Arguments, path: str) -> Pick | None:
    """Return what gives the values at indices of output `path`; None where equal values have an order of their own.

    It returns None for indices that choose an element twice, or one that is not there.
    """
    output, place = _CHOOSING.get(operator, ("", 0))
    given = arguments.kwargs.get("input", arguments.args[0] if arguments.args else None)
    is_ordered = bool(arguments.kwargs.get("stable"))
    if output != path or not isinstance(given, Input) or is_ordered or "axis" in arguments.kwargs:
        return None
    dim = arguments.kwargs.get("dim", arguments.args[place] if len(arguments.args) > place else None)
    values = given.tensor
    if operator in _OF_ALL and dim is None:
        values = values.flatten()
    if not isinstance(dim, int) or isinstance(dim, bool):
        dim = -1
    return lambda indices: _picked(values, indices, dim, may_repeat=operator in _REPEATING)


def _picked(values: torch.Tensor, indices: Any, dim: int, *, may_repeat: bool) -> torch.Tensor | None:
    if not isinstance(indices, torch.Tensor) or not indices.numel() or not values.dim():
        return None
    shape = indices.shape
    if values.dim() == 1:
        indices = indices.flatten()
    elif indices.dim() < values.dim():
        indices = indices.unsqueeze(dim)
    if not bool(((indices >= 0) & (indices < values.shape[dim])).all()):
        return None
    ordered = indices.sort(dim).values
    if not may_repeat and bool((ordered.diff(dim=dim) == 0).any()):
        return None
    return values.gather(dim, indices).reshape(shape)
