"""Vectors that are unique up to their sign, or their phase: each is turned to where the reference has it."""

from __future__ import annotations

from typing import Any

import torch

_ROWS, _COLUMNS = -1, -2  # the dimension along which one vector runs
_VECTORS = {
    "linalg.eig": {"1": _COLUMNS},
    "linalg.eigh": {"1": _COLUMNS},
    "linalg.svd": {"0": _COLUMNS, "2": _ROWS},
    "svd": {"0": _COLUMNS, "2": _COLUMNS},
}
_NO_GRADIENT = "its vectors are unique up to their sign or phase, and their gradients depend on it"


def turned(operator: str, place: str, value: Any, reference: Any) -> Any:
    """Return a result with each vector turned to where the reference has it; any other result as it is."""
    dim = _VECTORS.get(operator, {}).get(place)
    if dim is None or not isinstance(value, torch.Tensor) or not isinstance(reference, torch.Tensor):
        return value
    if value.shape != reference.shape:
        return value
    wide = reference.to(torch.promote_types(reference.dtype, value.dtype))
    products = (value.to(wide.dtype).conj() * wide).sum(dim, keepdim=True)
    phases = torch.where(products.abs() > 0, products / products.abs(), torch.ones_like(products))
    return (value.to(wide.dtype) * phases).to(value.dtype)


def reason_without_gradients(operator: str) -> str | None:
    """Return why a function's gradients are not compared; None where they are."""
    return _NO_GRADIENT if operator in _VECTORS else None
