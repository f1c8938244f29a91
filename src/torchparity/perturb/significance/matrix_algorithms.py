"""Algorithms on matrices, which round in each of many steps: sound ones err the more, the larger the matrix is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torchparity.perturb.apis import function_of

_ALGORITHMS = frozenset(
    {
        *("svd", "svdvals", "eigh", "eigvalsh", "norm", "matrix_norm", "nuclear_norm", "cond", "pinv", "pinverse"),
        *("inv", "inv_ex", "inverse", "solve", "solve_ex", "lstsq", "tensorinv", "tensorsolve"),
        *("det", "logdet", "slogdet", "matrix_exp", "matrix_power"),
        *("cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "solve_triangular", "triangular_solve"),
        *("lu", "lu_factor", "lu_factor_ex", "lu_solve", "ldl_factor", "ldl_factor_ex", "ldl_solve"),
        *("qr", "geqrf", "ormqr", "householder_product"),
    }
)


def expected_growth(api: str, tensors: Sequence[torch.Tensor]) -> float:
    """Return how much farther than one rounding a sound algorithm may be off: the root of its order, 1 for others.

    Roundings of either sign add up as a random walk does.
    """
    if function_of(api) not in _ALGORITHMS:
        return 1.0
    return math.sqrt(
        max((max(tensor.shape[-2:]) for tensor in tensors if tensor.dim() >= 2 and tensor.numel()), default=1)
    )
