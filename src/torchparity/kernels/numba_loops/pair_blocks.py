"""One pass over two tensors, compiled by numba without the interpreter lock.

A row is what a pass adds up to, always in float64; rows of two halves of a pair combine into
one. Numbers go in blocks that stay in the first cache: float32 is read where it lies, every
other dtype is first written as float64 into a buffer of one block. A block is taken to be
finite; one whose sums are not is done again number by number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from torchparity.kernels.numba_loops.blocks import call_crc
from torchparity.kernels.numba_loops.vectors import larger

ROW = 10
DOT, SQUARES, BASELINE_SQUARES, DISTANCE, MAX_ABS, MAX_RELATIVE, WITHIN_1E3, WITHIN_5E3, NONFINITE, MISMATCHED = range(
    ROW
)
FLOAT32, FLOAT64, BFLOAT16, FLOAT16, BYTE, HALF_BYTE, INT16, INT32, INT64, UINT16, UINT32, UINT64 = range(12)
BLOCK = 2048
_STRIDE = 16 * BLOCK  # numbers between two updates of the checksums: both sides stay in the L2 cache
# No "nnan": the sums must show a nan. No "arcp": a share of numbers within 0.001 hangs on the exact quotient.
_MATH = {"reassoc", "contract", "nsz"}
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float64]
Row = npt.NDArray[np.float64]


@njit(nogil=True, cache=True, error_model="numpy")
def _add_one(row: Row, error: float, size: float, epsilon: float) -> None:
    relative = error / (size if size > 0 else epsilon)
    row[MAX_ABS] = max(row[MAX_ABS], error)
    row[MAX_RELATIVE] = max(row[MAX_RELATIVE], relative)
    row[WITHIN_1E3] += relative < 0.001
    row[WITHIN_5E3] += relative < 0.005


@njit(nogil=True, cache=True, error_model="numpy")
def _difference(left: float, right: float, scale: float) -> float:
    """Return the scaled difference; which of the two comes first decides whether float64 can hold it."""
    return (left - right) * scale if scale > 1 else left * scale - right * scale


@njit(nogil=True, cache=True, error_model="numpy")
def _careful(candidate: Any, baseline: Any, epsilon: float, scales: Numbers, row: Row) -> None:
    """Add pairs one by one: equal nan and infinities as zeros, other pairs that are not finite only counted."""
    for index in range(candidate.size):
        left: Any = np.float64(candidate[index])
        right: Any = np.float64(baseline[index])
        if not (np.isfinite(left) and np.isfinite(right)):
            row[NONFINITE] += 1
            if left != right and not (np.isnan(left) and np.isnan(right)):
                row[MISMATCHED] += 1
                continue
            left = right = 0.0
        row[DOT] += left * scales[0] * (right * scales[1])
        row[SQUARES] += (left * scales[0]) ** 2
        row[BASELINE_SQUARES] += (right * scales[1]) ** 2
        row[DISTANCE] += _difference(left, right, scales[2]) ** 2
        _add_one(row, abs(left - right), abs(right), epsilon)


@njit(nogil=True, cache=True, error_model="numpy")
def _complex(candidate: Numbers, baseline: Numbers, epsilon: float, scales: Numbers, row: Row) -> None:
    """Add pairs of complex numbers, each a real and an imaginary part side by side."""
    for index in range(0, candidate.size, 2):
        real, imag = candidate[index], candidate[index + 1]
        other_real, other_imag = baseline[index], baseline[index + 1]
        is_finite = np.isfinite(real) and np.isfinite(imag)
        if not (is_finite and np.isfinite(other_real) and np.isfinite(other_imag)):
            row[NONFINITE] += 1
            both_nan = (np.isnan(real) or np.isnan(imag)) and (np.isnan(other_real) or np.isnan(other_imag))
            if not both_nan and (real != other_real or imag != other_imag):
                row[MISMATCHED] += 1
                continue
            real = imag = other_real = other_imag = 0.0
        row[DOT] += real * scales[0] * (other_real * scales[1]) + imag * scales[0] * (other_imag * scales[1])
        row[SQUARES] += (real * scales[0]) ** 2 + (imag * scales[0]) ** 2
        row[BASELINE_SQUARES] += (other_real * scales[1]) ** 2 + (other_imag * scales[1]) ** 2
        row[DISTANCE] += _difference(real, other_real, scales[2]) ** 2 + _difference(imag, other_imag, scales[2]) ** 2
        _add_one(row, np.hypot(real - other_real, imag - other_imag), np.hypot(other_real, other_imag), epsilon)


@njit(nogil=True, cache=True, fastmath=_MATH, error_model="numpy")
def _finite(candidate: Any, baseline: Any, epsilon: float, row: Row) -> bool:
    """Add a block of pairs and return True, or return False where one may not be finite."""
    dot = squares = other_squares = distance = max_abs = max_relative = within_1e3 = within_5e3 = 0.0
    for index in range(candidate.size):
        left, right = np.float64(candidate[index]), np.float64(baseline[index])
        error, size = abs(left - right), abs(right)
        relative = error / (size if size > 0 else epsilon)
        dot += left * right
        squares += left * left
        other_squares += right * right
        distance += error * error
        max_abs = larger(max_abs, error)
        max_relative = larger(max_relative, relative)
        within_1e3 += np.float64(relative < 0.001)
        within_5e3 += np.float64(relative < 0.005)
    if not np.isfinite(distance):
        return False
    row[DOT] += dot
    row[SQUARES] += squares
    row[BASELINE_SQUARES] += other_squares
    row[DISTANCE] += distance
    row[MAX_ABS] = max(row[MAX_ABS], max_abs)
    row[MAX_RELATIVE] = max(row[MAX_RELATIVE], max_relative)
    row[WITHIN_1E3] += within_1e3
    row[WITHIN_5E3] += within_5e3
    return True


@njit(nogil=True, cache=True, fastmath=_MATH)
def _equal(numbers: Any, row: Row) -> bool:
    """Add a block that both sides have and return True, or return False where a number may not be finite."""
    squares = 0.0
    for index in range(numbers.size):
        value = np.float64(numbers[index])
        squares += value * value
    if not np.isfinite(squares):
        return False
    row[DOT] += squares
    row[SQUARES] += squares
    row[BASELINE_SQUARES] += squares
    row[WITHIN_1E3] += numbers.size
    row[WITHIN_5E3] += numbers.size
    return True


@njit(nogil=True, cache=True)
def _same_bytes(left: Bytes, right: Bytes) -> bool:
    if left.size != right.size or left.size % 8 or left.size == 0:
        return False
    words, others = left.view(np.int64), right.view(np.int64)
    if words[0] != others[0]:  # nearly all blocks that differ
        return False
    different = 0
    for index in range(words.size):
        different |= words[index] ^ others[index]
    return different == 0


@njit(nogil=True, cache=True)
def _load_halves(bits: Any, kind: int, words: Any, numbers: Numbers) -> None:
    """Write bfloat16 or float16 as float64; `words` is room for as many uint32."""
    floats = words.view(np.float32)
    if kind == BFLOAT16:
        for index in range(bits.size):
            words[index] = np.uint32(bits[index]) << np.uint32(16)
        for index in range(bits.size):
            numbers[index] = floats[index]
        return
    for index in range(bits.size):
        half = np.uint32(bits[index])
        nonfinite = np.uint32(0x7F800000) if (half & np.uint32(0x7C00)) == 0x7C00 else np.uint32(0)
        words[index] = ((half & np.uint32(0x8000)) << 16) | ((half & np.uint32(0x7FFF)) << 13) | nonfinite
    for index in range(bits.size):
        numbers[index] = floats[index] * 2.0**112  # the exponents of the two formats begin that far apart


@njit(nogil=True, cache=True)
def _load_bytes(raw: Bytes, kind: int, table: Numbers, numbers: Numbers) -> None:
    """Write what each byte, or each half of a byte, means in `table`."""
    if kind == BYTE:
        for index in range(raw.size):
            numbers[index] = table[raw[index]]
        return
    for index in range(raw.size):
        numbers[2 * index] = table[raw[index] & 15]
        numbers[2 * index + 1] = table[raw[index] >> 4]


@njit(nogil=True, cache=True)
def _convert(source: Any, numbers: Numbers) -> None:
    for index in range(source.size):
        numbers[index] = source[index]


@njit(nogil=True, cache=True)
def _load(raw: Bytes, kind: int, table: Numbers, words: Any, numbers: Numbers) -> None:
    """Write numbers of any kind as float64."""
    if kind == FLOAT32:
        _convert(raw.view(np.float32), numbers)
    elif kind == FLOAT64:
        _convert(raw.view(np.float64), numbers)
    elif kind in (BFLOAT16, FLOAT16):
        _load_halves(raw.view(np.uint16), kind, words, numbers)
    elif kind in (BYTE, HALF_BYTE):
        _load_bytes(raw, kind, table, numbers)
    elif kind == INT16:
        _convert(raw.view(np.int16), numbers)
    elif kind == INT32:
        _convert(raw.view(np.int32), numbers)
    elif kind == INT64:
        _convert(raw.view(np.int64), numbers)
    elif kind == UINT16:
        _convert(raw.view(np.uint16), numbers)
    elif kind == UINT32:
        _convert(raw.view(np.uint32), numbers)
    else:
        _convert(raw.view(np.uint64), numbers)


@njit(nogil=True, cache=True)
def _part(raw: Bytes, count: int, first: int, last: int) -> Any:
    """Return the bytes of some of `count` numbers."""
    return raw[raw.size * first // count : raw.size * last // count]


@njit(nogil=True, cache=True)
def _check(raw: Any, count: int, first: int, last: int, crc_function: int, checksum: Any) -> None:
    part = _part(raw, count, first, last)
    checksum[0] = call_crc(crc_function, checksum[0], part.ctypes.data, part.size)


@njit(nogil=True, cache=True)
def add_real(
    candidate: Bytes, kind: int, table: Numbers,
    baseline: Bytes, other_kind: int, other_table: Numbers,
    count: int, epsilon: float, scales: Numbers, row: Row, crc_function: int, checksums: Any,
) -> None:  # fmt: skip
    """Add `count` pairs of real numbers to a row; scales other than 1 are for squares that would leave float64.

    With the address of a CRC-32, `checksums` of both sides go on with these bytes.
    """
    words, numbers, others = np.empty(BLOCK, np.uint32), np.empty(BLOCK), np.empty(BLOCK)
    in_place, is_scaled = kind == FLOAT32 and other_kind == FLOAT32, scales.min() != 1 or scales.max() != 1
    for first in range(0, count, BLOCK):
        last = min(count, first + BLOCK)
        if crc_function and first % _STRIDE == 0:
            end = min(count, first + _STRIDE)
            _check(candidate, count, first, end, crc_function, checksums[:1])
            _check(baseline, count, first, end, crc_function, checksums[1:])
        left, right = _part(candidate, count, first, last), _part(baseline, count, first, last)
        is_same = kind == other_kind and not is_scaled and _same_bytes(left, right)
        if in_place:
            floats, other_floats = left.view(np.float32), right.view(np.float32)
            done = _equal(floats, row) if is_same else _finite(floats, other_floats, epsilon, row)
            if not done:
                _careful(floats, other_floats, epsilon, scales, row)
            continue
        size = last - first
        _load(left, kind, table, words, numbers[:size])
        if is_same and _equal(numbers[:size], row):
            continue
        _load(right, other_kind, other_table, words, others[:size])
        if is_scaled or not _finite(numbers[:size], others[:size], epsilon, row):
            _careful(numbers[:size], others[:size], epsilon, scales, row)


@njit(nogil=True, cache=True)
def _spread(numbers: Numbers) -> None:
    """Give each number of the first half an imaginary part of zero."""
    for index in range(numbers.size // 2 - 1, -1, -1):
        numbers[2 * index], numbers[2 * index + 1] = numbers[index], 0.0


@njit(nogil=True, cache=True)
def add_complex(
    candidate: Bytes, kind: int, table: Numbers, is_complex: bool,
    baseline: Bytes, other_kind: int, other_table: Numbers, other_is_complex: bool,
    count: int, epsilon: float, scales: Numbers, row: Row,
) -> None:  # fmt: skip
    """Add `count` pairs, at least one side complex, to a row; the kind is that of the two parts of a number."""
    words, numbers, others = np.empty(BLOCK, np.uint32), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, count, BLOCK // 2):
        last = min(count, first + BLOCK // 2)
        size = 2 * (last - first)
        _load(_part(candidate, count, first, last), kind, table, words, numbers[:size])
        if not is_complex:
            _spread(numbers[:size])
        _load(_part(baseline, count, first, last), other_kind, other_table, words, others[:size])
        if not other_is_complex:
            _spread(others[:size])
        _complex(numbers[:size], others[:size], epsilon, scales, row)
