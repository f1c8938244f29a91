"""The largest relative deviation of two tensors in one pass, compiled by numba without the interpreter lock.

A block is taken to be finite; one whose differences are not is done again number by number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from torchparity.kernels.numba_loops.vectors import larger, smaller

_BLOCK = 1 << 13  # numbers that are looked at together: they stay in the cache
_MATH = {"reassoc", "contract", "nsz"}  # no "nnan": the sum must show a nan


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_MATH)
def _finite(left: Any, right: Any, floor: Any) -> Any:
    """Return the largest deviation of two blocks of one dtype, and a sum that is finite where all differences are."""
    largest, total = floor - floor, floor - floor
    for index in range(left.size):
        a, b = left[index], right[index]
        total += abs(a - b)
        beyond = a - smaller(larger(a, -floor), floor)
        other_beyond = b - smaller(larger(b, -floor), floor)
        scale = larger(smaller(abs(a), abs(b)), floor)
        largest = larger(largest, abs(beyond - other_beyond) / scale)
    return largest, total


@njit(nogil=True, cache=True, error_model="numpy")
def _beyond(value: float, floor: float) -> float:
    """Return how far a number lies beyond the floor, with its sign."""
    if value > floor:
        return value - floor
    return value + floor if value < -floor else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _careful(left: Any, right: Any, floor: float) -> float:
    """Return the largest deviation of two blocks; infinite where nan or inf are not the same on both sides."""
    best = 0.0
    for index in range(left.size):
        a: Any = np.float64(left[index])
        b: Any = np.float64(right[index])
        if a == b or (np.isnan(a) and np.isnan(b)):
            continue
        if not (np.isfinite(a) and np.isfinite(b)):
            return math.inf
        best = max(best, abs(_beyond(a, floor) - _beyond(b, floor)) / max(min(abs(a), abs(b)), floor))
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def _of_block(left: Any, right: Any, floor: Any) -> float:
    """Return the largest deviation of two blocks of one dtype, which `floor` has too."""
    found, total = _finite(left, right, floor)
    return float(found) if np.isfinite(total) else _careful(left, right, np.float64(floor))


@njit(nogil=True, cache=True, error_model="numpy")
def _widened(bits: Any, buffer: Any) -> Any:
    """Return bfloat16 numbers, given as bits, as float32."""
    words = buffer[: bits.size]
    for index in range(bits.size):
        words[index] = np.uint32(bits[index]) << np.uint32(16)
    return words.view(np.float32)


@njit(nogil=True, cache=True, error_model="numpy")
def of_numbers(left: Any, right: Any, floor: Any) -> float:
    """Return the largest deviation of two arrays of one dtype, which `floor` has too."""
    best = 0.0
    for start in range(0, left.size, _BLOCK):
        best = max(best, _of_block(left[start : start + _BLOCK], right[start : start + _BLOCK], floor))
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def of_bfloat16_and_float32(bits: Any, right: Any, floor: Any) -> float:
    """Return the largest deviation of bfloat16 numbers, given as bits, and float32."""
    buffer, best = np.empty(_BLOCK, np.uint32), 0.0
    for start in range(0, bits.size, _BLOCK):
        left = _widened(bits[start : start + _BLOCK], buffer)
        best = max(best, _of_block(left, right[start : start + _BLOCK], floor))
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def of_bfloat16(bits: Any, other_bits: Any, floor: Any) -> float:
    """Return the largest deviation of two arrays of bfloat16 numbers, given as bits."""
    buffers, best = np.empty((2, _BLOCK), np.uint32), 0.0
    for start in range(0, bits.size, _BLOCK):
        left = _widened(bits[start : start + _BLOCK], buffers[0])
        best = max(best, _of_block(left, _widened(other_bits[start : start + _BLOCK], buffers[1]), floor))
    return best
