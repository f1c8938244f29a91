"""The pass over a chunk of floating-point numbers.

Whole blocks are read without a mask and taken for finite numbers; a chunk whose sums turn out not to be finite is read
a second time with care. So is a chunk whose sketch overflowed float32, as that of a mask of the dtype's least numbers
does: its numbers are scaled down.

A block is a matrix of groups of the sketch by places in a group. Its product with the signs of the places has the eight
sums of every group; tensor cores compute it from numbers of 8 or 11 bits, which products with 1 and -1 keep exact, and
a float32 is three such numbers.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import row as fields
from torchparity.kernels import signs
from torchparity.kernels.triton_launch import chunks
from torchparity.kernels.triton_launch.sketch_signs import group_words, place_words, sign_matrix

BLOCK_OF_FLOAT32, BLOCK = 4096, 8192  # elements that a program holds at a time: in registers, so fewer of float32
_GROUP, _SUMS = tl.constexpr(signs.GROUP), tl.constexpr(signs.SUMS)
_VECTOR = tl.constexpr(8)  # neighbours that a thread adds up before anything else
_VECTORS = tl.constexpr(signs.GROUP // 8)
_COLUMNS = tl.constexpr(16)  # the fewest that a product of matrices has; the sketch needs half of them
_SCALE = tl.constexpr(2.0**-24)  # of the numbers of a careful pass, but not in float16, whose sums cannot overflow
_COUNTED = tl.constexpr(1024)  # elements that are looked at for nan and inf at a time
_FLOAT32, _FLOAT16 = tl.constexpr(chunks.FLOAT32), tl.constexpr(chunks.FLOAT16)
_BFLOAT16 = tl.constexpr(chunks.BFLOAT16)
_SUM, _MAX, _ZEROS = tl.constexpr(fields.SUM), tl.constexpr(fields.MAX), tl.constexpr(fields.ZEROS)
_NANS, _INFS = tl.constexpr(fields.NANS), tl.constexpr(fields.INFS)
_NEGATIVE_INFS, _SKETCH = tl.constexpr(fields.NEGATIVE_INFS), tl.constexpr(fields.SKETCH)


@triton.jit
def _top_bits(value):
    """Return float32 numbers without their last 16 bits: a bfloat16, and what is left of them."""
    top = (value.to(tl.uint32, bitcast=True) & 0xFFFF0000).to(tl.float32, bitcast=True)
    return top.to(tl.bfloat16), value - top


@triton.jit
def _sketched(value, kept, places, first, KIND: tl.constexpr, GROUPS: tl.constexpr, CAREFUL: tl.constexpr):
    """Return the sums of each group of a block with their signs; `value` are the numbers as they were loaded."""
    if CAREFUL and KIND != _FLOAT16:
        kept *= _SCALE
    if KIND == _FLOAT32:  # small parts first: tensor cores cut off what is small against the sum so far
        high, rest = _top_bits(kept)
        middle, low = _top_bits(rest)
        sums = tl.dot(low.to(tl.bfloat16), places.to(tl.bfloat16))
        sums = tl.dot(middle, places.to(tl.bfloat16), sums)
        sums = tl.dot(high, places.to(tl.bfloat16), sums)
    elif KIND == _FLOAT16:
        sums = tl.dot(kept.to(tl.float16) if CAREFUL else value, places.to(tl.float16))
    elif KIND == _BFLOAT16:
        sums = tl.dot(kept.to(tl.bfloat16) if CAREFUL else value, places.to(tl.bfloat16))
    else:
        sums = tl.dot(kept.to(tl.bfloat16), places.to(tl.bfloat16))
    return sums * sign_matrix(group_words(first // _GROUP, GROUPS), _COLUMNS)


@triton.jit
def _block(
    numbers, first, left, places, sums, total, squares, largest, smallest, zeros,
    KIND: tl.constexpr, GROUPS: tl.constexpr, MASKED: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Add one block to the sums of a program; `left` elements are in it."""
    lanes = tl.arange(0, GROUPS)[:, None] * _GROUP + tl.arange(0, _GROUP)[None, :]
    inside = lanes < left
    elements = numbers + first + lanes
    value = tl.load(elements, mask=inside, other=0.0) if MASKED else tl.load(elements)
    number = value.to(tl.float32)
    kept, high, low = number, number, number
    if CAREFUL:
        finite = (number.to(tl.int32, bitcast=True) & 0x7F800000) != 0x7F800000
        kept = tl.where(finite, number, 0.0)
        inside = inside & finite
    is_zero = number == 0
    if MASKED:
        high, low = tl.where(inside, number, float("-inf")), tl.where(inside, number, float("inf"))
        is_zero = is_zero & inside
    sums += _sketched(value, kept, places, first, KIND, GROUPS, CAREFUL)
    exact = tl.reshape(kept, [GROUPS, _VECTORS, _VECTOR]).to(tl.float64)
    total += tl.sum(exact, axis=2)
    squares += tl.sum(exact * exact, axis=2)
    largest = tl.maximum(largest, tl.max(tl.reshape(high, [GROUPS, _VECTORS, _VECTOR]), axis=2))
    smallest = tl.minimum(smallest, tl.min(tl.reshape(low, [GROUPS, _VECTORS, _VECTOR]), axis=2))
    zeros += tl.sum(tl.reshape(is_zero.to(tl.int32), [GROUPS, _VECTORS, _VECTOR]), axis=2)
    return sums, total, squares, largest, smallest, zeros


@triton.jit
def _pass(numbers, first, length, row, tables, KIND: tl.constexpr, BLOCK: tl.constexpr, CAREFUL: tl.constexpr):
    """Store the sums of a chunk; return whether it has to be read again with care."""
    GROUPS: tl.constexpr = BLOCK // _GROUP
    places = sign_matrix(place_words(tables), _COLUMNS)
    sums = tl.zeros([GROUPS, _COLUMNS], tl.float32)
    total = tl.zeros([GROUPS, _VECTORS], tl.float64)
    squares = tl.zeros([GROUPS, _VECTORS], tl.float64)
    largest = tl.full([GROUPS, _VECTORS], float("-inf"), tl.float32)
    smallest = tl.full([GROUPS, _VECTORS], float("inf"), tl.float32)
    zeros = tl.zeros([GROUPS, _VECTORS], tl.int32)
    whole = length // BLOCK * BLOCK
    if CAREFUL:
        whole = whole * 0
    for start in range(0, whole, BLOCK):
        sums, total, squares, largest, smallest, zeros = _block(
            numbers, first + start, BLOCK, places, sums, total, squares, largest, smallest, zeros,
            KIND, GROUPS, False, CAREFUL,
        )  # fmt: skip
    for start in range(whole, length, BLOCK):
        sums, total, squares, largest, smallest, zeros = _block(
            numbers, first + start, length - start, places, sums, total, squares, largest, smallest, zeros,
            KIND, GROUPS, True, CAREFUL,
        )  # fmt: skip
    exact = sums.to(tl.float64)
    if CAREFUL and KIND != _FLOAT16:
        exact /= _SCALE
    return _store_sums(row, exact, total, squares, largest, smallest, zeros)


@triton.jit
def _store_sums(row, sums, total, squares, largest, smallest, zeros):
    """Store a program's sums, several in one reduction; return whether one of them is not finite."""
    two, columns = tl.arange(0, 2), tl.arange(0, _COLUMNS)
    both = tl.sum(tl.sum(tl.join(total, squares), axis=0), axis=0)
    extremes = tl.max(tl.max(tl.join(largest, -smallest), axis=0), axis=0)
    tl.store(row + _SUM + two, both)
    tl.store(row + _MAX + two, tl.where(two == 0, extremes, -extremes).to(tl.float64))
    tl.store(row + _ZEROS, tl.sum(zeros).to(tl.float64))
    tl.store(row + _NANS, 0.0)
    tl.store(row + _INFS, 0.0)
    tl.store(row + _NEGATIVE_INFS, 0.0)
    sketch = tl.sum(sums, axis=0)
    tl.store(row + _SKETCH + columns, sketch, mask=columns < _SUMS)
    # The difference of nan and inf from themselves is nan.
    return tl.max((both - both != 0).to(tl.int32)) + tl.max((sketch - sketch != 0).to(tl.int32)) > 0


@triton.jit
def _store_counts(numbers, first, length, row):
    """Store how many numbers of a chunk are nan, inf and -inf."""
    lanes = tl.arange(0, _COUNTED)
    nans = tl.zeros([_COUNTED], tl.int32)
    infs = tl.zeros([_COUNTED], tl.int32)
    negative = tl.zeros([_COUNTED], tl.int32)
    for start in range(0, length, _COUNTED):
        value = tl.load(numbers + first + start + lanes, mask=start + lanes < length, other=0.0).to(tl.float32)
        nans += (value != value).to(tl.int32)
        infs += (value == float("inf")).to(tl.int32)
        negative += (value == float("-inf")).to(tl.int32)
    tl.store(row + _NANS, tl.sum(nans).to(tl.float64))
    tl.store(row + _INFS, tl.sum(infs).to(tl.float64))
    tl.store(row + _NEGATIVE_INFS, tl.sum(negative).to(tl.float64))


@triton.jit
def measure_floats(numbers, first, length, row, tables, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Store the row of a chunk."""
    if _pass(numbers, first, length, row, tables, KIND, BLOCK, False):
        tl.debug_barrier()  # the same words are stored again
        _pass(numbers, first, length, row, tables, KIND, BLOCK, True)
        tl.debug_barrier()
        _store_counts(numbers, first, length, row)
