"""The largest relative deviation of two host tensors, in which what is near zero counts as zero."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from torchparity.kernels.numba_loops import deviations as loops

_BFLOAT16, _FLOAT32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
_BLOCK = 1 << 16  # numbers that are converted together

Numbers = npt.NDArray[Any]


def largest_deviation(original: Numbers, perturbed: Numbers, floor: float) -> float:
    """Return the largest deviation of two flat, contiguous arrays of floats, which is the same either way."""
    both = (original, perturbed)
    if {each.dtype for each in both} <= {_BFLOAT16, _FLOAT32}:
        halves = [each.view(np.uint16) for each in both if each.dtype == _BFLOAT16]
        floats = [each for each in both if each.dtype == _FLOAT32]
        loop: Any = (loops.of_numbers, loops.of_bfloat16_and_float32, loops.of_bfloat16)[len(halves)]
        return float(loop(*halves, *floats, np.float32(floor)))
    kind = np.float64 if np.float64 in (original.dtype, perturbed.dtype) else np.float32
    best = 0.0
    for start in range(0, original.size, _BLOCK):
        left, right = (each[start : start + _BLOCK].astype(kind, copy=False) for each in both)
        best = max(best, float(loops.of_numbers(left, right, kind(floor))))
    return best
