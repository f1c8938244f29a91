"""Metrics of two tensors in one pass; memory does not grow with the tensors.

Everything is computed in float64. A complex pair differs by |N - B|, relative to |B|, and its
dot product is the real part of the inner product: a complex number is a point of the plane.
Where B is zero the relative error is |N| divided by the epsilon of the baseline's dtype; zero
against zero is no error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from torchparity.kernels.numba_loops import pair_blocks as blocks
from torchparity.kernels.numba_loops.crc import compiled_crc
from torchparity.records import PairMetrics
from torchparity.tensors import DTYPES, HostTensor, release_pages

_PART = 1 << 20  # elements of the smallest part that a core is woken for
_MOST_PARTS = 64
_WINDOW = 1 << 22  # elements between two releases of mapped memory
_RELEASED_FROM = 1 << 20  # bytes; the call costs as much as comparing a few thousand numbers
# Squares of float64 leave float64 beyond these sums; a second pass then works on numbers times 2**600 or 2**-600.
_SMALLEST_SUM, _LARGEST_SUM, _SCALE = 1e-250, 1e300, 2.0**600
_KINDS = {
    "torch.float32": blocks.FLOAT32,
    "torch.float64": blocks.FLOAT64,
    "torch.complex64": blocks.FLOAT32,
    "torch.complex128": blocks.FLOAT64,
    "torch.complex32": blocks.FLOAT16,
    "torch.bcomplex32": blocks.BFLOAT16,
    "torch.bfloat16": blocks.BFLOAT16,
    "torch.float16": blocks.FLOAT16,
    "torch.float4_e2m1fn_x2": blocks.HALF_BYTE,
    "torch.int16": blocks.INT16,
    "torch.int32": blocks.INT32,
    "torch.int64": blocks.INT64,
    "torch.uint16": blocks.UINT16,
    "torch.uint32": blocks.UINT32,
    "torch.uint64": blocks.UINT64,
}  # every other dtype has one byte
_WIDE = frozenset({"torch.float64", "torch.complex128"})
_HALF = frozenset({"torch.float16", "torch.complex32"})
_ONES = np.ones(3)
_NO_CHECKSUMS = np.zeros(2, np.uint32)
Row = npt.NDArray[np.float64]
Scales = npt.NDArray[np.float64]
Checksums = npt.NDArray[np.uint32]


def compare_pair(candidate: HostTensor, baseline: HostTensor, *, parts: int | None = None) -> PairMetrics:
    """Return the metrics of two tensors with equally many elements; raise ValueError for any others.

    `parts` is how many parts the cores share, by default several if the tensors are large. The same number of
    parts always gives the same result; the default depends on the size alone, so that every machine has the same.
    """
    left, right = _Side(candidate), _Side(baseline)
    if left.count != right.count:
        raise ValueError(f"{left.count} elements cannot be compared with {right.count}")
    if parts is None:
        parts = max(1, min(_MOST_PARTS, left.count // _PART))
    return _compared(left, right, parts, _row(left, right, parts, _ONES))


def compare_checked(candidate: HostTensor, baseline: HostTensor) -> tuple[PairMetrics, tuple[int, int]]:
    """Return the metrics of two tensors and the CRC-32 of each one's bytes, read together in one thread."""
    left, right = _Side(candidate), _Side(baseline)
    is_plain = left.is_plain and right.is_plain and left.count == right.count
    if not is_plain or not compiled_crc():
        metrics = compare_pair(candidate, baseline, parts=1)
        return metrics, (isal_zlib.crc32(candidate.raw()), isal_zlib.crc32(baseline.raw()))
    checksums = np.zeros(2, np.uint32)
    row = _part(left, right, 0, left.count, _ONES, compiled_crc(), checksums)
    return _compared(left, right, 1, row), (int(checksums[0]), int(checksums[1]))


def _compared(left: _Side, right: _Side, parts: int, row: Row) -> PairMetrics:
    """Return the metrics from a first pass; a second one, with scales, is made where squares left float64."""
    scales = _ONES
    if left.dtype in _WIDE or right.dtype in _WIDE:
        sums = (row[blocks.SQUARES], row[blocks.BASELINE_SQUARES], row[blocks.DISTANCE])
        scales = np.array([_scale(total) for total in sums])
        if row[blocks.MAX_ABS] == 0:
            scales[2] = 1.0
        if (scales != 1).any():
            row = _row(left, right, parts, scales)
    return _metrics(row, left.count, float(scales[2]))


class _Side:
    """One tensor of a pair: its bytes, window by window, and how to read them as numbers."""

    def __init__(self, tensor: HostTensor) -> None:
        self.array, self.dtype = tensor.array, tensor.dtype
        self.kind = _KINDS.get(tensor.dtype, blocks.BYTE)
        self.table = _meanings(tensor.dtype)
        self.is_complex = tensor.dtype.startswith(("torch.complex", "torch.bcomplex"))
        self.is_plain = not self.is_complex and self.array.flags.c_contiguous
        self._per_element = 2 if self.kind == blocks.HALF_BYTE else 1
        self.count = tensor.array.size * self._per_element
        # `flat` copies a window at a time, where reshape would copy a strided tensor whole.
        self._flat: Any = self.array.reshape(-1) if self.array.flags.c_contiguous else self.array.flat

    def window(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of some numbers, always read-only: another type would be compiled once more."""
        elements = slice(first // self._per_element, last // self._per_element)
        raw: npt.NDArray[np.uint8] = np.asarray(self._flat[elements]).view(np.uint8)
        raw.flags.writeable = False
        return raw

    def epsilon(self) -> float:
        """Return the number that replaces a zero in a denominator."""
        if self.dtype in _HALF:
            return 2.0**-10
        is_whole = self.array.dtype.kind in "iub"
        return 2.0**-52 if is_whole or self.dtype in _WIDE else 2.0**-23


def _row(left: _Side, right: _Side, parts: int, scales: Scales) -> Row:
    """Return the row of sums of a pair, each part computed in a thread."""
    bounds = [left.count * part // parts // 2 * 2 for part in range(parts)]  # even: a byte may hold two numbers
    bounds.append(left.count)
    if parts == 1:
        return _part(left, right, bounds[0], bounds[1], scales)
    rows = [_threads().submit(_part, left, right, bounds[part], bounds[part + 1], scales) for part in range(parts)]
    row = rows[0].result()
    for other in rows[1:]:
        _join(row, other.result())
    return row


def _part(
    left: _Side, right: _Side, first: int, last: int, scales: Scales, crc: int = 0, checksums: Checksums = _NO_CHECKSUMS
) -> Row:
    row = np.zeros(blocks.ROW)
    for start, stop in _windows(first, last):
        mine, theirs = left.window(start, stop), right.window(start, stop)
        count, epsilon = stop - start, right.epsilon()
        if left.is_complex or right.is_complex:
            blocks.add_complex(
                mine, left.kind, left.table, left.is_complex,
                theirs, right.kind, right.table, right.is_complex,
                count, epsilon, scales, row,
            )  # fmt: skip
        else:
            blocks.add_real(
                mine, left.kind, left.table, theirs, right.kind, right.table,
                count, epsilon, scales, row, crc, checksums,
            )  # fmt: skip
        for window in (mine, theirs):
            if window.nbytes >= _RELEASED_FROM:
                release_pages(window)
    return row


def _windows(first: int, last: int) -> Iterator[tuple[int, int]]:
    for start in range(first, last, _WINDOW):
        yield start, min(last, start + _WINDOW)


def _join(row: Row, other: Row) -> None:
    """Add the row of another part."""
    extremes = [blocks.MAX_ABS, blocks.MAX_RELATIVE]
    largest = np.maximum(row[extremes], other[extremes])
    with np.errstate(all="ignore"):  # sums that leave float64 are made once more, with scales
        row += other
    row[extremes] = largest


def _scale(total: float) -> float:
    """Return the factor that brings numbers whose squares add up to `total` into the range of float64."""
    if total < _SMALLEST_SUM:
        return _SCALE
    return 1.0 if total < _LARGEST_SUM else 1 / _SCALE


def _metrics(row: Row, count: int, distance_scale: float) -> PairMetrics:
    dot, squares, other_squares, distance, max_abs, max_relative, within_1e3, within_5e3, nonfinite, mismatched = (
        row.tolist()
    )
    cosine: float | None
    if max_abs == 0:
        cosine = 1.0
    elif squares == 0 or other_squares == 0:
        cosine = None
    else:
        cosine = max(-1.0, min(1.0, dot / (math.sqrt(squares) * math.sqrt(other_squares))))
    rest = count - int(mismatched)
    return PairMetrics(
        count=count,
        cosine=cosine,
        euclidean=math.sqrt(distance) / distance_scale,
        max_abs=max_abs,
        max_relative=max_relative,
        within_1e3=within_1e3 / rest if rest else 1.0,
        within_5e3=within_5e3 / rest if rest else 1.0,
        mismatched=int(mismatched),
        candidate_is_zero=squares == 0,
        baseline_is_zero=other_squares == 0,
        has_nonfinite=nonfinite > 0,
    )


@cache
def _meanings(dtype: str) -> Scales:
    """Return the number that each byte, or each half of a byte, stands for; nothing for wider dtypes."""
    if dtype in _KINDS and _KINDS[dtype] != blocks.HALF_BYTE:
        return np.zeros(1)
    if dtype == "torch.float4_e2m1fn_x2":
        every = HostTensor(dtype, np.arange(16, dtype=np.uint8).view(DTYPES[dtype])).numbers()[::2]
    elif dtype == "torch.bool":
        every = np.arange(256) != 0
    else:
        every = HostTensor(dtype, np.arange(256, dtype=np.uint8).view(DTYPES[dtype])).numbers()
    return np.ascontiguousarray(every, np.float64)


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads that share large tensors; numba's own take milliseconds to meet on a busy machine."""
    return ThreadPoolExecutor(_cores(), "torchparity-pairs")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
