"""One pass over contiguous numbers, compiled by numba without the interpreter lock.

A pass adds up a row (`kernels/row.py`); the rows of two halves of a tensor combine into one.
Float32 goes in blocks: partial sums of a block in float32, blocks in float64, which is
within 1e-7 of float64 and twice as fast. A block that holds a nan or an infinity, or whose
squares leave float32, is done again number by number in float64.

Indexes are those of the whole tensor, which the signs of the sketch go by: every part and every block
begins with a group of the sketch.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from torchparity.errors import ConfigError
from torchparity.kernels.numba_loops.sketches import add_signed, add_sketch, part_start
from torchparity.kernels.numba_loops.vectors import PORTION, larger, smaller, sums_of_floats
from torchparity.kernels.row import FIELDS, INFS, MAX, MIN, NANS, NEGATIVE_INFS, SKETCH, SQUARES, SUM, ZEROS

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise ConfigError("NUMBA_DISABLE_JIT turns off the compiler that tensors are measured with; unset it.")

_BLOCK = 2048  # numbers that are still in the L1 cache if the block has to be read again
_TINY = 1e-16  # below this, squares leave float32
# No "nnan": the sums must show a nan. Only the order of additions is free.
_MATH = {"reassoc", "contract", "nsz", "arcp"}
_STRIDE = 1 << 14  # numbers that are still in the L1 cache when their checksum is computed
Row = npt.NDArray[np.float64]
Table = npt.NDArray[np.int64]


@njit(nogil=True, cache=True, error_model="numpy")
def _careful(numbers: Any, start: int, stop: int, row: Row) -> None:
    """Add numbers one by one in float64; nan and infinities are only counted."""
    for index in range(start, stop):
        value = np.float64(numbers[index])
        if value != value:
            row[NANS] += 1
        elif value == np.inf:
            row[INFS] += 1
        elif value == -np.inf:
            row[NEGATIVE_INFS] += 1
        else:
            row[SUM] += value
            row[SQUARES] += value * value
            row[ZEROS] += value == 0
            row[MAX] = max(row[MAX], value)
            row[MIN] = min(row[MIN], value)
            add_signed(value, index, row)


@njit(nogil=True, cache=True, error_model="numpy")
def _is_doubtful(squares: float, largest: float, smallest: float) -> bool:
    """Tell whether a block holds a nan or an infinity, or numbers whose squares underflow."""
    return not np.isfinite(squares) or 0 < max(abs(largest), abs(smallest)) < _TINY


@njit(nogil=True, cache=True, error_model="numpy")
def _add_sums(total: float, squares: float, zeros: float, largest: float, smallest: float, row: Row) -> None:
    row[SUM] += np.float64(total)
    row[SQUARES] += np.float64(squares)
    row[ZEROS] += np.float64(zeros)
    row[MAX] = max(row[MAX], np.float64(largest))
    row[MIN] = min(row[MIN], np.float64(smallest))


@njit(nogil=True, cache=True, fastmath=_MATH, error_model="numpy")
def add_floats(numbers: Any, start: int, stop: int, row: Row) -> None:
    """Add floats to a row, a block's partial sums in their own precision."""
    for first in range(start, stop, _BLOCK):
        last = min(stop, first + _BLOCK)
        block = numbers[first:last]  # indices from 0 cannot be negative; else LLVM would load one by one
        total = squares = zeros = numbers.dtype.type(0)
        largest = smallest = block[0]
        for index in range(block.size):
            value = block[index]
            total += value
            squares += value * value
            zeros += numbers.dtype.type(value == 0)
            largest = larger(largest, value)
            smallest = smaller(smallest, value)
        if _is_doubtful(squares, largest, smallest):
            _careful(numbers, first, last, row)
        else:
            _add_sums(total, squares, zeros, largest, smallest, row)
            add_sketch(numbers, first, last, row)


@njit(nogil=True, cache=True, error_model="numpy")
def _add_floats_at(address: int, numbers: Any, start: int, stop: int, row: Row) -> None:
    """Add float32 to a row as `add_floats` does, with explicit vectors for all but the last few."""
    for first in range(start, stop, _BLOCK):
        last = min(stop, first + _BLOCK)
        whole = first + (last - first) // PORTION * PORTION
        if whole > first:
            sums = sums_of_floats(address + 4 * first, whole - first, first // PORTION)
            total, squares, zeros, largest, smallest = sums[:5]
            if _is_doubtful(squares, largest, smallest):
                _careful(numbers, first, whole, row)
            else:
                _add_sums(total, squares, zeros, largest, smallest, row)
                for number in range(FIELDS - SKETCH):
                    row[SKETCH + number] += np.float64(sums[5 + number])
        if last > whole:
            add_floats(numbers, whole, last, row)


@njit(nogil=True, cache=True, fastmath=_MATH, error_model="numpy")
def add_floats_exactly(numbers: Any, start: int, stop: int, row: Row) -> None:
    """Add floats to a row, every sum in float64."""
    for first in range(start, stop, _BLOCK):
        last = min(stop, first + _BLOCK)
        block = numbers[first:last]
        total = squares = zeros = 0.0
        largest = smallest = block[0]
        for index in range(block.size):
            value = block[index]
            exact = np.float64(value)
            total += exact
            squares += exact * exact
            zeros += np.float64(value == 0)
            largest = larger(largest, value)
            smallest = smaller(smallest, value)
        if not np.isfinite(squares):
            _careful(numbers, first, last, row)
            continue
        _add_sums(total, squares, zeros, largest, smallest, row)
        add_sketch(numbers, first, last, row)


@njit(nogil=True, cache=True, error_model="numpy")
def add_integers(numbers: Any, start: int, stop: int, row: Row, extremes: Any) -> None:
    """Add integers to a row; `extremes` keeps every digit of the largest and the smallest."""
    largest, smallest = extremes[0], extremes[1]
    for index in range(start, stop):
        value = numbers[index]
        exact = np.float64(value)
        row[SUM] += exact
        row[SQUARES] += exact * exact
        row[ZEROS] += value == 0
        largest = max(largest, value)
        smallest = min(smallest, value)
    extremes[0], extremes[1] = largest, smallest
    add_sketch(numbers, start, stop, row)


@njit(nogil=True, cache=True)
def _one_row(rows: Any) -> Any:
    """Combine the rows of several parts into one."""
    total = rows[0]
    for part in range(1, rows.shape[0]):
        for place in range(FIELDS):
            if place == MAX:
                total[place] = max(total[place], rows[part, place])
            elif place == MIN:
                total[place] = min(total[place], rows[part, place])
            else:
                total[place] += rows[part, place]
    return total


@njit(nogil=True, cache=True)
def _empty_rows(parts: int) -> Any:
    rows = np.zeros((parts, FIELDS))
    rows[:, MAX], rows[:, MIN] = -np.inf, np.inf
    return rows


@njit(nogil=True, cache=True)
def floats(numbers: Any, exact: bool) -> Any:
    """Return the row of some floats."""
    rows = _empty_rows(1)
    if exact:
        add_floats_exactly(numbers, 0, numbers.size, rows[0])
    else:
        add_floats(numbers, 0, numbers.size, rows[0])
    return rows[0]


@njit(nogil=True, cache=True, parallel=True)
def floats_on_all_cores(numbers: Any, exact: bool, parts: int) -> Any:
    """Return the row of many floats, one part on each core."""
    rows = _empty_rows(parts)
    for part in prange(parts):
        first, last = part_start(numbers.size, part, parts), part_start(numbers.size, part + 1, parts)
        if exact:
            add_floats_exactly(numbers, first, last, rows[part])
        else:
            add_floats(numbers, first, last, rows[part])
    return _one_row(rows)


def _pointer_to(number: Any) -> Any:
    """Return what makes a pointer of the address of such numbers, for compiled code."""
    pointer = types.CPointer(number)  # type: ignore[no-untyped-call]

    @intrinsic
    def pointer_at(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return pointer(address), generate

    return pointer_at


@intrinsic
def _crc(typing_context: Any, function: Any, so_far: Any, address: Any, size: Any) -> Any:
    """Call the CRC-32 at `function`: an address, since compiled code with a library's name in it is not cached."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, long = ir.IntType(32), ir.IntType(64)
        kind = ir.FunctionType(word, [word, long, long]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], kind), arguments[1:])

    return types.uint32(types.int64, types.uint32, types.int64, types.int64), generate


_floats_at, _doubles_at = _pointer_to(types.float32), _pointer_to(types.float64)
_words_at, _longs_at = _pointer_to(types.uint32), _pointer_to(types.int64)
call_crc: Any = _crc
_carray: Any = numba.carray  # type: ignore[attr-defined]


@njit(nogil=True, cache=True)
def _add_at(address: int, first: int, last: int, exact: bool, row: Row, crc_function: int) -> Any:
    """Add some of the float32 at an address to a row; return their CRC-32, read while they are in the cache."""
    numbers, checksum = _carray(_floats_at(address), last), np.uint32(0)
    for start in range(first, last, _STRIDE):
        stop = min(last, start + _STRIDE)
        if exact:
            add_floats_exactly(numbers, start, stop, row)
        else:
            _add_floats_at(address, numbers, start, stop, row)
        if crc_function:
            checksum = call_crc(crc_function, checksum, address + 4 * start, 4 * (stop - start))
    return checksum


@njit(nogil=True, cache=True)
def measure_part(
    table: Table, exact: bool, crc_function: int, rows: Any, checksums: Any, core: int, cores: int
) -> None:
    """Fill one core's row and checksum of each tensor; the table has its address and its count."""
    for index in range(table.shape[0]):
        count = table[index, 1]
        first, last = part_start(count, core, cores), part_start(count, core + 1, cores)
        row = rows[index, core]
        row[MAX], row[MIN] = -np.inf, np.inf
        checksums[index, core] = _add_at(table[index, 0], first, last, exact, row, crc_function)


@njit(nogil=True, cache=True)
def measure_at(table: int, tensors: int, exact: bool, crc_function: int, rows: int, checksums: int, cores: int) -> None:
    """Do as `measure_part` on one core, by the addresses of arrays: handing arrays over takes longer than the work."""
    measure_part(
        _carray(_longs_at(table), (tensors, 2)),
        exact,
        crc_function,
        _carray(_doubles_at(rows), (tensors, cores, FIELDS)),
        _carray(_words_at(checksums), (tensors, cores)),
        0,
        1,
    )


@njit(nogil=True, cache=True, parallel=True)
def measure_on_all_cores(table: Table, exact: bool, crc_function: int, rows: Any, checksums: Any, cores: int) -> None:
    """Fill a row and a checksum for each tensor and core."""
    for core in prange(cores):
        measure_part(table, exact, crc_function, rows, checksums, core, cores)


def empty_row() -> Row:
    row = np.zeros(FIELDS)
    row[MAX], row[MIN] = -np.inf, np.inf
    return row
