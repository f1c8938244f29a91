"""The largest relative deviation of two tensors in one pass, compiled by numba without the interpreter lock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, error_model="numpy")
def _beyond(value: float, floor: float) -> float:
    """Return how far a number lies beyond the floor, with its sign."""
    if value > floor:
        return value - floor
    return value + floor if value < -floor else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def largest(left: Any, right: Any, floor: float, best: float) -> float:
    """Return the largest deviation of two arrays, or `best` where that is larger; infinite where nan or inf differ."""
    for index in range(left.size):
        a: Any = np.float64(left[index])
        b: Any = np.float64(right[index])
        if a == b or (np.isnan(a) and np.isnan(b)):
            continue
        if not (np.isfinite(a) and np.isfinite(b)):
            return math.inf
        moved = abs(_beyond(a, floor) - _beyond(b, floor))
        scale = max(min(abs(a), abs(b)), floor)
        if moved > best * scale:
            best = moved / scale
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def widen(bits: Any, numbers: Any) -> None:
    """Write bfloat16 numbers, given as bits, as those of float32."""
    for index in range(bits.size):
        numbers[index] = np.uint32(bits[index]) << np.uint32(16)
