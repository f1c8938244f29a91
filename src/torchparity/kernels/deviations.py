"""The largest relative deviation of two host tensors, in which what is near zero counts as zero."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from torchparity.kernels.numba_loops import deviations as loops

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BLOCK = 1 << 13  # numbers that are looked at together: they stay in the cache

Numbers = npt.NDArray[Any]


def largest_deviation(original: Numbers, perturbed: Numbers, floor: float) -> float:
    """Return the largest deviation of two flat, contiguous arrays of floats."""
    is_wide = np.float64 in (original.dtype, perturbed.dtype)
    kind = np.float64 if is_wide else np.float32
    buffer = np.empty((2, min(original.size, _BLOCK)), np.uint32)
    best = 0.0
    for start in range(0, original.size, _BLOCK):
        place = slice(start, start + _BLOCK)
        left, right = _read(original[place], buffer[0], kind), _read(perturbed[place], buffer[1], kind)
        best = max(best, float(loops.largest(left, right, kind(floor))))
    return best


def _read(block: Numbers, buffer: Numbers, kind: type[np.floating[Any]]) -> Numbers:
    if block.dtype == _BFLOAT16 and kind is np.float32:
        bits = buffer[: block.size]
        loops.widen(block.view(np.uint16), bits)
        return bits.view(np.float32)
    return block.astype(kind, copy=False)
