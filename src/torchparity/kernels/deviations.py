"""The largest relative deviation of two host tensors, in which what is near zero counts as zero."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from torchparity.kernels.numba_loops import deviations as loops

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_READ_AS_THEY_ARE = (np.dtype(np.float32), np.dtype(np.float64))
_BLOCK = 1 << 14  # numbers that are widened together: they stay in the cache

Numbers = npt.NDArray[Any]


def largest_deviation(original: Numbers, perturbed: Numbers, floor: float) -> float:
    """Return the largest deviation of two flat, contiguous arrays of floats."""
    buffers = [_buffer(array) for array in (original, perturbed)]
    best = 0.0
    for start in range(0, original.size, _BLOCK):
        place = slice(start, start + _BLOCK)
        left, right = (
            _read(array[place], buffer) for array, buffer in zip((original, perturbed), buffers, strict=True)
        )
        best = float(loops.largest(left, right, floor, best))
    return best


def _buffer(array: Numbers) -> Numbers | None:
    return np.empty(min(array.size, _BLOCK), np.uint32) if array.dtype == _BFLOAT16 else None


def _read(block: Numbers, buffer: Numbers | None) -> Numbers:
    if buffer is not None:
        bits = buffer[: block.size]
        loops.widen(block.view(np.uint16), bits)
        return bits.view(np.float32)
    return block if block.dtype in _READ_AS_THEY_ARE else block.astype(np.float32)
