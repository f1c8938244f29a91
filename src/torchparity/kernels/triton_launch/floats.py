"""The pass over a chunk of floating-point numbers.

Whole blocks are read without a mask and taken for finite numbers; a chunk whose sums turn out not to be finite is read
a second time with care. So is a chunk whose sketch overflowed float32, as that of a mask of the dtype's least numbers
does: its numbers are scaled down.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import row as fields
from torchparity.kernels import signs
from torchparity.kernels.triton_launch import chunks, halves
from torchparity.kernels.triton_launch.chunks import in_threads
from torchparity.kernels.triton_launch.halves import whole_blocks_of_halves
from torchparity.kernels.triton_launch.sketch_signs import place_words, sign_matrix
from torchparity.kernels.triton_launch.sketch_sums import COLUMNS, sketch_sums
from torchparity.kernels.triton_launch.strides import elements

_BLOCK, _THREADS = tl.constexpr(chunks.BLOCK), tl.constexpr(chunks.THREADS)
_REST = tl.constexpr(2048)  # elements at a time of what is no whole block, or is read with care
_GROUP, _SUMS, _COLUMNS = tl.constexpr(signs.GROUP), tl.constexpr(signs.SUMS), tl.constexpr(COLUMNS)
_DOWN = tl.constexpr(2.0**-24)  # scales the numbers of a careful pass
_VECTOR_OF_HALVES, _LEAST_OF_HALVES = tl.constexpr(halves.VECTOR), tl.constexpr(halves.LEAST)
_COUNTS = tl.constexpr(4)  # words that hold three counts: blocks have powers of two
_COUNTED = tl.constexpr(1024)  # elements that are looked at for nan and inf at a time
_FLOAT16, _BFLOAT16 = tl.constexpr(chunks.FLOAT16), tl.constexpr(chunks.BFLOAT16)
_SUM, _MAX, _ZEROS = tl.constexpr(fields.SUM), tl.constexpr(fields.MAX), tl.constexpr(fields.ZEROS)
_NANS, _INFS = tl.constexpr(fields.NANS), tl.constexpr(fields.INFS)
_NEGATIVE_INFS, _SKETCH = tl.constexpr(fields.NEGATIVE_INFS), tl.constexpr(fields.SKETCH)


@triton.jit
def _add_block(
    value, inside, scale, places, first, sums, total, squares, largest, smallest, zeros,
    KIND: tl.constexpr, VECTOR: tl.constexpr, MASKED: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Add one block to the sums of a program."""
    number = value.to(tl.float32)
    kept, high, low = number, number, number
    is_zero = number == 0
    if CAREFUL:
        finite = (number.to(tl.int32, bitcast=True) & 0x7F800000) != 0x7F800000
        kept = tl.where(finite, number, 0.0)
        inside = inside & finite
    if MASKED:
        high, low = tl.where(inside, number, float("-inf")), tl.where(inside, number, float("inf"))
        is_zero = is_zero & inside
    sums += sketch_sums(kept * scale if CAREFUL else value, places, first, KIND)
    exact = in_threads(kept.to(tl.float64), VECTOR)
    total += tl.sum(tl.sum(exact, axis=3), axis=0)
    squares += tl.sum(tl.sum(exact * exact, axis=3), axis=0)
    largest = tl.maximum(largest, tl.max(tl.max(in_threads(high, VECTOR), axis=3), axis=0))
    smallest = tl.minimum(smallest, tl.min(tl.min(in_threads(low, VECTOR), axis=3), axis=0))
    zeros += tl.sum(tl.sum(in_threads(tl.where(is_zero, 1.0, 0.0), VECTOR), axis=3), axis=0)
    return sums, total, squares, largest, smallest, zeros


@triton.jit
def _blocks(
    numbers, first, begin, end, layout, scale, places, sketch, total, squares, largest, smallest, zeros,
    STRIDED: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr,
    MASKED: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Add the blocks of a part of a chunk to the sums of a program."""
    GROUPS: tl.constexpr = BLOCK // _GROUP
    lanes = tl.arange(0, GROUPS)[:, None] * _GROUP + tl.arange(0, _GROUP)[None, :]
    sums = tl.zeros([GROUPS, _SUMS], tl.float32)
    for start in range(begin, end, BLOCK):
        inside = start + lanes < end
        pointers = elements(numbers, first + start + lanes, layout, STRIDED, VECTOR)
        value = tl.load(pointers, mask=inside, other=0.0) if MASKED else tl.load(pointers)
        sums, total, squares, largest, smallest, zeros = _add_block(
            value, inside, scale, places, first + start, sums, total, squares, largest, smallest, zeros,
            KIND, VECTOR, MASKED, CAREFUL,
        )  # fmt: skip
    added = tl.sum(sums.to(tl.float64), axis=0)
    sketch += added / scale if CAREFUL else added
    return sketch, total, squares, largest, smallest, zeros


@triton.jit
def _pass(
    numbers, first, length, layout, row, scale,
    STRIDED: tl.constexpr, KIND: tl.constexpr, VECTOR: tl.constexpr, IN_PAIRS: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Store the sums of a chunk; return the scale of the numbers if it has to be read again with care, else 0."""
    VECTORS: tl.constexpr = _GROUP // VECTOR
    ROWS: tl.constexpr = _THREADS // VECTORS
    places = sign_matrix(place_words(), _COLUMNS)
    sketch = tl.zeros([_SUMS], tl.float64)
    total = tl.zeros([ROWS, VECTORS], tl.float64)
    squares = tl.zeros([ROWS, VECTORS], tl.float64)
    largest = tl.full([ROWS, VECTORS], float("-inf"), tl.float32)
    smallest = tl.full([ROWS, VECTORS], float("inf"), tl.float32)
    zeros = tl.zeros([ROWS, VECTORS], tl.float32)  # exact, since a thread has fewer than 2 ** 24 numbers
    whole = length // _BLOCK * _BLOCK
    if CAREFUL:
        whole = whole * 0
    elif IN_PAIRS and VECTOR == _VECTOR_OF_HALVES:
        sketch, total, squares, largest, smallest, zeros = whole_blocks_of_halves(
            numbers, first, whole, layout, places, total, squares, zeros, STRIDED, KIND
        )
    else:
        sketch, total, squares, largest, smallest, zeros = _blocks(
            numbers, first, 0, whole, layout, scale, places, sketch, total, squares, largest, smallest, zeros,
            STRIDED, KIND, _BLOCK, VECTOR, False, False,
        )  # fmt: skip
    if whole < length:
        sketch, total, squares, largest, smallest, zeros = _blocks(
            numbers, first, whole, length, layout, scale, places, sketch, total, squares, largest, smallest, zeros,
            STRIDED, KIND, _REST, VECTOR, True, CAREFUL,
        )  # fmt: skip
    return _store_sums(row, sketch, total, squares, largest, smallest, zeros, KIND)


@triton.jit
def _store_sums(row, sketch, total, squares, largest, smallest, zeros, KIND: tl.constexpr):
    """Store a program's sums, several in one reduction; return the scale at which those that are lost can be found."""
    two, sums, counted = tl.arange(0, 2), tl.arange(0, _SUMS), tl.arange(0, _COUNTS)
    counts = zeros.to(tl.float64)
    fourfold = tl.join(tl.join(total, squares), tl.join(counts, counts))
    added = tl.sum(tl.reshape(fourfold, [_THREADS, 2, 2]), axis=0)
    extremes = tl.max(tl.reshape(tl.join(largest, -smallest), [_THREADS, 2]), axis=0)
    tl.store(row + _SUM + two[:, None] + two[None, :] * _ZEROS, added, mask=two[:, None] + two[None, :] < 2)
    tl.store(row + _MAX + two, tl.where(two == 0, extremes, -extremes).to(tl.float64))
    tl.store(row + _NANS + counted, tl.zeros([_COUNTS], tl.float64), mask=counted <= _NEGATIVE_INFS - _NANS)
    tl.store(row + _SKETCH + sums, sketch)
    difference = tl.sum(tl.sum(added - added, axis=0), axis=0) + tl.sum(sketch - sketch, axis=0)
    is_lost = difference != difference  # that of inf from itself is nan
    scale = _DOWN
    if KIND == _FLOAT16:
        scale = 1.0  # its sums cannot overflow
    elif KIND == _BFLOAT16:
        extreme = tl.max(tl.abs(extremes))
        is_small = extreme < _LEAST_OF_HALVES
        is_lost = is_lost | (is_small & (extreme > 0))
        scale = tl.where(is_small, 1.0, _DOWN)
    return tl.where(is_lost, scale, 0.0)


@triton.jit
def _store_counts(numbers, first, length, layout, row, STRIDED: tl.constexpr, VECTOR: tl.constexpr):
    """Store how many numbers of a chunk are nan, inf and -inf."""
    lanes = tl.arange(0, _COUNTED)
    nans = tl.zeros([_COUNTED], tl.int32)
    infs = tl.zeros([_COUNTED], tl.int32)
    negative = tl.zeros([_COUNTED], tl.int32)
    for start in range(0, length, _COUNTED):
        pointers = elements(numbers, first + start + lanes, layout, STRIDED, VECTOR)
        value = tl.load(pointers, mask=start + lanes < length, other=0.0).to(tl.float32)
        nans += (value != value).to(tl.int32)
        infs += (value == float("inf")).to(tl.int32)
        negative += (value == float("-inf")).to(tl.int32)
    tl.store(row + _NANS, tl.sum(nans).to(tl.float64))
    tl.store(row + _INFS, tl.sum(infs).to(tl.float64))
    tl.store(row + _NEGATIVE_INFS, tl.sum(negative).to(tl.float64))


@triton.jit
def measure_floats(
    numbers, first, length, layout, row,
    STRIDED: tl.constexpr, KIND: tl.constexpr, SIZE: tl.constexpr, ALIGNED: tl.constexpr, IN_PAIRS: tl.constexpr,
):  # fmt: skip
    """Store the row of a chunk of numbers of SIZE bytes; IN_PAIRS where the device computes with two in a register."""
    VECTOR: tl.constexpr = 16 // SIZE if ALIGNED else 1  # neighbours that a thread loads at a time
    scale = _pass(numbers, first, length, layout, row, 1.0, STRIDED, KIND, VECTOR, IN_PAIRS, False)
    if scale > 0:
        tl.debug_barrier()  # the same words are stored again
        _pass(numbers, first, length, layout, row, scale, STRIDED, KIND, VECTOR, IN_PAIRS, True)
        tl.debug_barrier()
        _store_counts(numbers, first, length, layout, row, STRIDED, VECTOR)
