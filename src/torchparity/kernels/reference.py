"""The definition of a tensor's statistics, in plain NumPy and float64, which faster kernels must equal.

Works through a tensor in blocks, so memory does not grow with the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.kernels.checksums import crc_checksum
from torchparity.kernels.row import squares_fit_float64
from torchparity.kernels.signs import SUMS, is_wide, packed_sums, sketch_sums
from torchparity.kernels.statistics import statistics_of
from torchparity.records import Statistics
from torchparity.summaries import TensorProfile
from torchparity.tensors import HostTensor

_BLOCK = 1 << 20
_BINS = 20
Numbers = npt.NDArray[Any]


def statistics(tensor: HostTensor) -> Statistics:
    """Return the statistics of a tensor: every value as it is defined, in float64."""
    return _sums(tensor).statistics(tensor.dtype)


def profile(tensor: HostTensor) -> TensorProfile:
    """Return a tensor's statistics, checksum and histogram, and where its extremes are, for a person to read."""
    sums = _sums(tensor)
    edges, counts = _histogram(tensor, sums)
    places = {name: sums.places[name] for name in ("max", "min", "nan", "inf", "-inf") if name in sums.places}
    shape = _shape_of_numbers(tensor)
    return TensorProfile(
        dtype=tensor.dtype,
        shape=tensor.shape,
        checksum=crc_checksum(tensor),
        statistics=sums.statistics(tensor.dtype),
        histogram_edges=edges,
        histogram_counts=counts,
        places={name: _index(place, shape) for name, place in places.items()},
    )


@dataclass
class _Sums:
    """The sums of two passes over a tensor; complex numbers count by their modulus."""

    count: int = 0
    nan: int = 0
    inf: int = 0
    negative_inf: int = 0
    zero: int = 0
    max: float | int | None = None
    min: float | int | None = None
    total: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    scale: float = 1.0
    places: dict[str, int] = field(default_factory=dict)
    sketch: Numbers = field(default_factory=lambda: np.zeros(SUMS))

    def take(self, block: Numbers, start: int) -> None:
        finite = np.isfinite(block)
        self.count += block.size
        if not finite.all():
            for name, mask in (("nan", np.isnan(block)), ("inf", block == np.inf), ("-inf", block == -np.inf)):
                if mask.any():
                    self.places.setdefault(name, start + int(mask.argmax()))
            self.nan += int(np.isnan(block).sum())
            self.inf += int((block == np.inf).sum())
            self.negative_inf += int((block == -np.inf).sum())
        self.zero += int((block == 0).sum())
        if finite.all() and block.size:
            self._extremes(block, block, start)
        elif finite.any():
            self._extremes(np.where(finite, block, -np.inf), np.where(finite, block, np.inf), start)

    def _extremes(self, for_max: Numbers, for_min: Numbers, start: int) -> None:
        for name, block, at in (("max", for_max, int(for_max.argmax())), ("min", for_min, int(for_min.argmin()))):
            value, best = block[at].item(), getattr(self, name)
            if best is None or (value > best if name == "max" else value < best):
                setattr(self, name, value)
                self.places[name] = start + at

    def add(self, block: Numbers) -> None:
        scaled = block[np.isfinite(block)].astype(np.float64) / self.scale
        self.total.append(float(scaled.sum()))
        self.squares.append(float(np.dot(scaled, scaled)))

    def add_signed(self, block: Numbers, start: int) -> None:
        scaled = np.where(np.isfinite(block), block, 0).astype(np.float64) / self.scale
        self.sketch += sketch_sums(scaled, start)

    def statistics(self, dtype: str) -> Statistics:
        with np.errstate(over="ignore"):  # a sum beyond float64 saturates
            sketch = packed_sums(self.sketch * self.scale, wide=is_wide(dtype))
        return statistics_of(
            count=self.count,
            largest=self.max,
            smallest=self.min,
            mean=math.fsum(self.total) / max(1, self.count - self.nan - self.inf - self.negative_inf) * self.scale,
            norm=math.sqrt(math.fsum(self.squares)) * self.scale,
            nan=self.nan,
            inf=self.inf,
            negative_inf=self.negative_inf,
            zero=self.zero,
            is_bool=dtype == "torch.bool",
            sketch=sketch,
        )


def _sums(tensor: HostTensor) -> _Sums:
    sums = _Sums()
    for start, block in _blocks(tensor):
        sums.take(block, start)
    largest = max(abs(float(value)) for value in (sums.max or 0, sums.min or 0))
    if not squares_fit_float64(largest):
        sums.scale = largest
    for _, block in _blocks(tensor):
        sums.add(block)
    for start, block in _numbers(tensor):
        if block.dtype.kind == "c":  # the modulus is not linear, which a sketch must be
            start, block = 2 * start, block.view(np.float64)
        sums.add_signed(block, start)
    return sums


def _blocks(tensor: HostTensor) -> Iterator[tuple[int, Numbers]]:
    """Yield runs of real numbers with the position of the first; of a complex number its modulus."""
    for start, block in _numbers(tensor):
        if block.dtype.kind == "c":  # |inf + nan j| is inf in IEEE 754, yet there is a nan
            block = np.where(np.isnan(block), np.nan, np.abs(block))
        yield start, block


def _numbers(tensor: HostTensor) -> Iterator[tuple[int, Numbers]]:
    """Yield runs of numbers with the position of the first."""
    array = tensor.array
    # `flat` copies a block at a time, where reshape would copy an expanded tensor whole.
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    start = 0
    for first in range(0, array.size, _BLOCK):
        block = HostTensor(tensor.dtype, np.asarray(flat[first : first + _BLOCK])).numbers()
        yield start, block
        start += block.size


def _histogram(tensor: HostTensor, sums: _Sums) -> tuple[list[float], list[int]]:
    if sums.max is None or sums.min is None:
        return [], []
    low, high = float(sums.min), float(sums.max)
    if low == high or not math.isfinite(high - low):
        return [low, high], [sums.count - sums.nan - sums.inf - sums.negative_inf]
    edges = np.linspace(low, high, _BINS + 1)
    counts = np.zeros(_BINS, np.int64)
    for _, block in _blocks(tensor):
        values = block[np.isfinite(block)].astype(np.float64)
        counts += np.histogram(values, bins=edges)[0]
    return edges.tolist(), counts.tolist()


def _shape_of_numbers(tensor: HostTensor) -> tuple[int, ...]:
    if tensor.dtype == "torch.float4_e2m1fn_x2" and tensor.shape:
        return (*tensor.shape[:-1], tensor.shape[-1] * 2)
    return tensor.shape


def _index(place: int, shape: tuple[int, ...]) -> list[int]:
    return [int(part) for part in np.unravel_index(place, shape)] if shape else []
