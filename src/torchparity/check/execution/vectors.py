"""Eigenvectors and singular vectors, held against the equation that defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from torchparity.check.cases import Arguments, Input

_ROUNDINGS = 1000.0  # of the dtype, for each row: far more than an algorithm makes, far less than a wrong vector


def solving(api: str, arguments: Arguments, outputs: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Return what tells whether vectors solve their equation; None for an API that returns none."""
    solve = _EQUATIONS.get(api)
    given = arguments.kwargs.get("A", arguments.kwargs.get("input", arguments.args[0] if arguments.args else None))
    tensors = [value for value in outputs.values() if isinstance(value, torch.Tensor)]
    if solve is None or not isinstance(given, Input) or len(tensors) < _LEAST_OUTPUTS:
        return None
    uplo = arguments.kwargs.get("UPLO", arguments.args[1] if len(arguments.args) > 1 else "L")
    matrix = given.tensor
    if api == "Torch.linalg.eigh":
        triangle = matrix.triu() if uplo in ("U", "u") else matrix.tril()
        matrix = triangle + triangle.mH - torch.diag_embed(triangle.diagonal(dim1=-2, dim2=-1).conj())
    return lambda: solve(_wide(matrix), *map(_wide, tensors)) <= _ROUNDINGS * _rounding(given.tensor)


_LEAST_OUTPUTS = 2


def _rounding(matrix: torch.Tensor) -> float:
    return float(torch.finfo(matrix.dtype).eps) * max(matrix.shape[-2:])


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128)


def _of_eigenvectors(matrix: torch.Tensor, values: torch.Tensor, vectors: torch.Tensor) -> float:
    return max(_distance(matrix @ vectors, vectors * values.unsqueeze(-2), matrix), _off_length(vectors))


def _of_singular_vectors(matrix: torch.Tensor, left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> float:
    count = values.shape[-1]
    found = (left[..., :, :count] * values.unsqueeze(-2)) @ right[..., :count, :]
    return max(_distance(found, matrix, matrix), _off_length(left), _off_length(right.mH))


def _distance(found: torch.Tensor, wanted: torch.Tensor, matrix: torch.Tensor) -> float:
    largest = float(matrix.abs().max()) if matrix.numel() else 0.0
    off = float((found - wanted).abs().nan_to_num(torch.inf).max()) if found.numel() else 0.0
    return off / largest if largest else off


def _off_length(vectors: torch.Tensor) -> float:
    lengths = vectors.abs().square().sum(-2)
    return float((lengths - 1).abs().nan_to_num(torch.inf).max()) if lengths.numel() else 0.0


def _of_transposed(matrix: torch.Tensor, left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> float:
    return _of_singular_vectors(matrix, left, values, right.mH)


_EQUATIONS: Mapping[str, Callable[..., float]] = {
    "Torch.linalg.eig": _of_eigenvectors,
    "Torch.linalg.eigh": _of_eigenvectors,
    "Torch.linalg.svd": _of_singular_vectors,
    "Torch.svd": _of_transposed,
    "Tensor.svd": _of_transposed,
}
