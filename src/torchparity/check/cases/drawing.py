"""Tensors drawn at random from recorded statistics: the same values on every machine and with every version.

The numbers are those of NumPy's Philox, whose raw output is fixed, and are scaled by operations that IEEE 754
fixes too. Values lie in [Min, Max], spread as mean and norm say where they were recorded; both ends occur.
Zeros, nan and infinities occur as often as they were counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from torchparity.check.cases.refusal import CannotRun
from torchparity.records import Statistics, TensorLeaf

_TO_UNIT = 2.0**-53
_KEPT_BITS = np.uint64(11)  # 64 raw bits hold 53 of a float64
_UNIFORM_WIDTH = math.sqrt(3.0)  # half the width of a uniform distribution with a standard deviation of 1
_REAL_ONLY = "its statistics hold nan or infinities that were not counted; a run with task tensor has the values"


@dataclass(frozen=True)
class Draws:
    """The source of random numbers for one tensor; `name` is its item's full name, which is the seed."""

    name: str

    def raw(self, count: int, purpose: str = "") -> npt.NDArray[np.uint64]:
        """Return 64 random bits for each element."""
        digest = blake2b(f"{self.name}{purpose}".encode(), digest_size=16).digest()
        bits: npt.NDArray[np.uint64] = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw(count)
        return bits

    def unit(self, count: int, purpose: str = "") -> npt.NDArray[np.float64]:
        """Return numbers in [0, 1)."""
        return (self.raw(count, purpose) >> _KEPT_BITS).astype(np.float64) * _TO_UNIT

    def order(self, count: int) -> npt.NDArray[np.int64]:
        """Return the numbers from 0 to count - 1 in random order."""
        return np.argsort(self.raw(count, "order"), kind="stable").astype(np.int64)

    def uniform(self, count: int, low: float, high: float) -> npt.NDArray[np.float64]:
        """Return numbers in [low, high]; a range wider than the largest float64 is no exception."""
        unit = self.unit(count)
        return np.clip(low * (1.0 - unit) + high * unit, low, high)

    def integers(self, count: int, low: int, high: int) -> npt.NDArray[Any]:
        """Return whole numbers from low to high, both included."""
        width = high - low + 1
        if width >= 1 << 63:
            return self.raw(count).view(np.int64) if low < 0 else self.raw(count)
        offsets = self.raw(count) % np.uint64(width)
        return offsets + np.uint64(low) if high >= 1 << 63 else offsets.astype(np.int64) + low


def torch_dtype(name: str) -> torch.dtype:
    """Return torch's dtype by the name that records have for it."""
    dtype = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise CannotRun(f"this torch has no dtype {name}")
    return dtype


def drawn(leaf: TensorLeaf, draws: Draws, shape: Sequence[int] | None = None) -> torch.Tensor:
    """Return a tensor with values such as were recorded; `shape` in place of the recorded one."""
    dtype = torch_dtype(leaf.dtype)
    sizes = tuple(leaf.shape if shape is None else shape)
    count = math.prod(sizes)
    if count == 0:
        return torch.empty(sizes, dtype=dtype)
    if leaf.statistics is None:
        raise CannotRun("the record has no statistics to draw its arguments from")
    values = _values(leaf.statistics, dtype, draws, count)
    tensor = torch.from_numpy(np.ascontiguousarray(values)).reshape(sizes)
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def _values(statistics: Statistics, dtype: torch.dtype, draws: Draws, count: int) -> npt.NDArray[Any]:
    if dtype == torch.bool:
        return _booleans(statistics, draws, count)
    if dtype.is_complex:
        return _complex_numbers(statistics, draws, count)
    low, high = _finite_range(statistics)
    if not dtype.is_floating_point:
        return draws.integers(count, int(low), int(high))
    return _floats(statistics, draws, count, float(low), float(high))


def _booleans(statistics: Statistics, draws: Draws, count: int) -> npt.NDArray[Any]:
    if statistics.zero_count is not None:
        return draws.order(count) >= min(statistics.zero_count, count)
    low, high = _finite_range(statistics)
    return (draws.raw(count) & np.uint64(1)).astype(bool) if low != high else np.full(count, bool(high))


def _complex_numbers(statistics: Statistics, draws: Draws, count: int) -> npt.NDArray[Any]:
    """Return complex numbers whose parts spread as the norm says; their order has no ends."""
    norm = statistics.finite_norm if statistics.finite_norm is not None else statistics.norm
    if norm is None or not math.isfinite(norm):
        raise CannotRun(_REAL_ONLY)
    width = float(norm) / math.sqrt(count) * math.sqrt(1.5)
    parts = draws.uniform(2 * count, -width, width)
    return parts.view(np.complex128)


def _floats(statistics: Statistics, draws: Draws, count: int, low: float, high: float) -> npt.NDArray[Any]:
    left, right = _spread(statistics, count, low, high)
    values = draws.uniform(count, left, right)
    if count > 1:
        values[0], values[-1] = low, high
    else:
        values[0] = high
    special = [(statistics.zero_count, 0.0), (statistics.nan_count, math.nan)]
    special += [(statistics.inf_count, math.inf), (statistics.negative_inf_count, -math.inf)]
    if any(number for number, _ in special):
        order, start = draws.order(count), 0
        for number, value in special:
            values[order[start : start + (number or 0)]] = value
            start += number or 0
    return values


def _spread(statistics: Statistics, count: int, low: float, high: float) -> tuple[float, float]:
    """Return the range of a uniform distribution with the recorded mean and spread, within [low, high]."""
    mean, norm = statistics.finite_mean, statistics.finite_norm
    if mean is None or norm is None:
        mean, norm = statistics.mean, statistics.norm
    if mean is None or norm is None or not math.isfinite(mean) or not math.isfinite(norm):
        return low, high
    variance = float(norm) / count * float(norm) - float(mean) * float(mean)
    width = _UNIFORM_WIDTH * math.sqrt(variance) if variance > 0 and math.isfinite(variance) else 0.0
    left, right = max(low, mean - width), min(high, mean + width)
    return (left, right) if left < right else (low, high)


def _finite_range(statistics: Statistics) -> tuple[float, float]:
    counted = (statistics.nan_count or 0) + (statistics.inf_count or 0) + (statistics.negative_inf_count or 0)
    if counted and statistics.finite_min is None:
        return 0.0, 0.0  # nothing is finite: every element is one of those counted
    low = statistics.min if statistics.finite_min is None else statistics.finite_min
    high = statistics.max if statistics.finite_max is None else statistics.finite_max
    if low is None or high is None:
        raise CannotRun("the record has no statistics to draw its arguments from")
    if not math.isfinite(low) or not math.isfinite(high):
        raise CannotRun(_REAL_ONLY)
    return (low, high) if low <= high else (high, low)
