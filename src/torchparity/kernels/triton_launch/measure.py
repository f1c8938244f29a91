"""The pass over tensors on a CUDA device, in Triton: every chunk of every tensor of a call in one launch.

A program reads one chunk and writes one row: sums in float64, extremes, counts and the
chunk's part of the CRC-32. Nothing is added up across programs here, so the result does not
depend on the order in which they run; `arenas/cuda.py` joins the rows on the host.

A kernel is compiled for one dtype and for tensors that begin at a multiple of 16 bytes or not: both decide how many
bytes a thread loads at a time. Whole blocks are read without a mask and taken for finite numbers; a chunk whose squares
add up to nothing finite, or whose numbers are so small that their squares vanish, is read a second time with care.

A block is a matrix of groups of the sketch (`signs.py`) by places in a group. Its product with the signs of the places
has the eight sums of every group; tensor cores compute it from numbers of 8 or 11 bits, which products with 1 and -1
keep exact, and a float32 is three such numbers.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
from typing import Any

import triton
import triton.language as tl

from torchparity.kernels import row as fields
from torchparity.kernels import signs

CHUNK = 8192  # the fewest elements of a program
MOST_PROGRAMS = 256  # of a tensor; a larger one has larger chunks
LANES = 1024  # words that a program's checksum takes at a time
PLACE_WORDS = 1024 + LANES  # where the bytes of a group's places are in the tables, after those of the checksum
FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, INT64, INT32, INT16, INT8, UINT8 = range(10)
BLOCK_OF_FLOAT32, BLOCK = 4096, 8192  # elements that a program holds at a time: in registers, so fewer of float32
FEW = 3  # tensors that are arguments of a launch; more are in a table

_GROUP, _CHUNK, _MOST_PROGRAMS = tl.constexpr(signs.GROUP), tl.constexpr(CHUNK), tl.constexpr(MOST_PROGRAMS)
_BLOCK_OF_FLOAT32, _BLOCK = tl.constexpr(BLOCK_OF_FLOAT32), tl.constexpr(BLOCK)
_VECTOR = tl.constexpr(8)  # neighbours that a thread adds up before anything else
_VECTORS = tl.constexpr(signs.GROUP // 8)
_COLUMNS = tl.constexpr(16)  # the fewest that a product of matrices has; the sketch needs half of them
_SUMS = tl.constexpr(signs.SUMS)
_INTEGER_BLOCK, _INTEGER_GROUPS = tl.constexpr(1024), tl.constexpr(1024 // signs.GROUP)
_SMALLEST = tl.constexpr(1e-15)  # where float32 loses squares, all numbers of the chunk are smaller
_EXACT = tl.constexpr(True)
_SEARCHED = tl.constexpr(256)  # entries of a table at a time
_PLACE_WORDS = tl.constexpr(PLACE_WORDS)
_LANES = tl.constexpr(LANES)
_POLYNOMIAL = tl.constexpr(0xEDB88320)
_SEED = tl.constexpr(signs.SEED)
_FIRST_FACTOR, _SECOND_FACTOR = tl.constexpr(signs.FIRST_FACTOR), tl.constexpr(signs.SECOND_FACTOR)
_FIRST_SHIFT, _SECOND_SHIFT = tl.constexpr(signs.FIRST_SHIFT), tl.constexpr(signs.SECOND_SHIFT)
_THIRD_SHIFT, _SKETCH = tl.constexpr(signs.THIRD_SHIFT), tl.constexpr(fields.SKETCH)
_SUM, _SQUARES = tl.constexpr(fields.SUM), tl.constexpr(fields.SQUARES)
_MAX, _MIN, _ZEROS = tl.constexpr(fields.MAX), tl.constexpr(fields.MIN), tl.constexpr(fields.ZEROS)
_NANS, _INFS = tl.constexpr(fields.NANS), tl.constexpr(fields.INFS)
_NEGATIVE_INFS, _FIELDS = tl.constexpr(fields.NEGATIVE_INFS), tl.constexpr(fields.FIELDS)
_FLOAT32, _FLOAT16, _BFLOAT16, _FLOAT8_E4M3, _FLOAT8_E5M2 = (tl.constexpr(code) for code in range(5))
_INT64, _INT32, _INT16, _INT8 = (tl.constexpr(code) for code in range(5, 9))


def chunk_of(count: Any) -> Any:
    """Return the elements that each program of a tensor takes; `count` may be an array."""
    return CHUNK * -(-count // (CHUNK * MOST_PROGRAMS))


def programs_of(count: Any) -> Any:
    """Return how many programs, and rows, a tensor has; `count` may be an array."""
    return -(-count // chunk_of(count))


@triton.jit
def _chunk_of(count):
    """Return what `chunk_of` does, and the least chunk for a tensor that is not there."""
    span = _CHUNK * _MOST_PROGRAMS
    return tl.maximum((count + span - 1) // span, 1) * _CHUNK


@triton.jit
def _programs_of(count):
    chunk = _chunk_of(count)
    return (count + chunk - 1) // chunk


@triton.jit
def _group_words(group, GROUPS: tl.constexpr):
    """Return the bytes of a block's groups, from that of number `group` on, as `signs.group_words` does."""
    word = (group + tl.arange(0, GROUPS)).to(tl.uint32)
    word = (word + _SEED).to(tl.uint32)
    word = word ^ (word >> _FIRST_SHIFT)
    word = (word * _FIRST_FACTOR).to(tl.uint32)
    word = word ^ (word >> _SECOND_SHIFT)
    word = (word * _SECOND_FACTOR).to(tl.uint32)
    return word ^ (word >> _THIRD_SHIFT)


@triton.jit
def _place_signs(tables):
    """Return the signs of a group's places as a matrix of places by sums."""
    words = tl.load(tables.to(tl.pointer_type(tl.uint32)) + _PLACE_WORDS + tl.arange(0, _GROUP))
    return 1.0 - 2.0 * ((words[:, None] >> tl.arange(0, _COLUMNS)[None, :]) & 1).to(tl.float32)


@triton.jit
def _top_bits(value):
    """Return float32 numbers without their last 16 bits: a bfloat16, and what is left of them."""
    top = (value.to(tl.uint32, bitcast=True) & 0xFFFF0000).to(tl.float32, bitcast=True)
    return top.to(tl.bfloat16), value - top


@triton.jit
def _sketched(value, kept, places, first, KIND: tl.constexpr, GROUPS: tl.constexpr, CAREFUL: tl.constexpr):
    """Return the sums of each group of a block with their signs; `value` are the numbers as they were loaded."""
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
    words = _group_words(first // _GROUP, GROUPS)
    return sums * (1.0 - 2.0 * ((words[:, None] >> tl.arange(0, _COLUMNS)[None, :]) & 1).to(tl.float32))


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
    vectors = tl.reshape(kept, [GROUPS, _VECTORS, _VECTOR])
    if (KIND == _FLOAT32) | CAREFUL | _EXACT:
        exact = vectors.to(tl.float64)
        total += tl.sum(exact, axis=2)
        squares += tl.sum(exact * exact, axis=2)
    else:  # squares of 11 bits are exact in float32, and so is nearly every sum of eight
        total += tl.sum(vectors, axis=2).to(tl.float64)
        squares += tl.sum(vectors * vectors, axis=2).to(tl.float64)
    largest = tl.maximum(largest, tl.max(tl.reshape(high, [GROUPS, _VECTORS, _VECTOR]), axis=2))
    smallest = tl.minimum(smallest, tl.min(tl.reshape(low, [GROUPS, _VECTORS, _VECTOR]), axis=2))
    zeros += tl.sum(tl.reshape(is_zero.to(tl.int32), [GROUPS, _VECTORS, _VECTOR]), axis=2)
    return sums, total, squares, largest, smallest, zeros


@triton.jit
def _pass(numbers, first, length, row, tables, KIND: tl.constexpr, BLOCK: tl.constexpr, CAREFUL: tl.constexpr):
    """Store the sums of a chunk; return whether it has to be read again with care."""
    GROUPS: tl.constexpr = BLOCK // _GROUP
    places = _place_signs(tables)
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
    return _store_sums(row, sums, total, squares, largest, smallest, zeros)


@triton.jit
def _store_sums(row, sums, total, squares, largest, smallest, zeros):
    """Store a program's sums, several in one reduction; return whether squares were lost."""
    two, columns = tl.arange(0, 2), tl.arange(0, _COLUMNS)
    both = tl.sum(tl.sum(tl.join(total, squares), axis=0), axis=0)
    extremes = tl.max(tl.max(tl.join(largest, -smallest), axis=0), axis=0)
    tl.store(row + _SUM + two, both)
    tl.store(row + _MAX + two, tl.where(two == 0, extremes, -extremes).to(tl.float64))
    tl.store(row + _ZEROS, tl.sum(zeros).to(tl.float64))
    tl.store(row + _NANS, 0.0)
    tl.store(row + _INFS, 0.0)
    tl.store(row + _NEGATIVE_INFS, 0.0)
    tl.store(row + _SKETCH + columns, tl.sum(sums.to(tl.float64), axis=0), mask=columns < _SUMS)
    is_lost = both - both != 0  # of nan and inf
    extreme = tl.max(tl.abs(extremes))
    return (tl.max(is_lost.to(tl.int32)) > 0) | ((extreme < _SMALLEST) & (extreme > 0))


@triton.jit
def _store_counts(numbers, first, length, row):
    """Store how many numbers of a chunk are nan, inf and -inf."""
    lanes = tl.arange(0, _INTEGER_BLOCK)
    nans = tl.zeros([_INTEGER_BLOCK], tl.int32)
    infs = tl.zeros([_INTEGER_BLOCK], tl.int32)
    negative = tl.zeros([_INTEGER_BLOCK], tl.int32)
    for start in range(0, length, _INTEGER_BLOCK):
        value = tl.load(numbers + first + start + lanes, mask=start + lanes < length, other=0.0).to(tl.float32)
        nans += (value != value).to(tl.int32)
        infs += (value == float("inf")).to(tl.int32)
        negative += (value == float("-inf")).to(tl.int32)
    tl.store(row + _NANS, tl.sum(nans).to(tl.float64))
    tl.store(row + _INFS, tl.sum(infs).to(tl.float64))
    tl.store(row + _NEGATIVE_INFS, tl.sum(negative).to(tl.float64))


@triton.jit
def _floats(numbers, first, length, row, tables, KIND: tl.constexpr, BLOCK: tl.constexpr):
    if _pass(numbers, first, length, row, tables, KIND, BLOCK, False):
        tl.debug_barrier()  # the same words are stored again
        _pass(numbers, first, length, row, tables, KIND, BLOCK, True)
        tl.debug_barrier()
        _store_counts(numbers, first, length, row)


@triton.jit
def _integer_sketch(numbers, first, length, row, tables, NUMBER: tl.constexpr):
    """Store one sum of the sketch, in float64; a pass of its own, since all eight would need too many registers."""
    lanes = tl.arange(0, _INTEGER_GROUPS)[:, None] * _GROUP + tl.arange(0, _GROUP)[None, :]
    sums = tl.zeros([_INTEGER_GROUPS, _GROUP], tl.float64)
    for start in range(0, length, _INTEGER_BLOCK):
        value = tl.load(numbers + first + start + lanes, mask=start + lanes < length, other=0).to(tl.int64)
        words = _group_words((first + start) // _GROUP, _INTEGER_GROUPS)
        sums += value.to(tl.float64) * (1.0 - 2.0 * ((words >> NUMBER) & 1).to(tl.float64))[:, None]
    places = tl.load(tables.to(tl.pointer_type(tl.uint32)) + _PLACE_WORDS + tl.arange(0, _GROUP))
    sign = 1.0 - 2.0 * ((places >> NUMBER) & 1).to(tl.float64)
    tl.store(row + _SKETCH + NUMBER, tl.sum(tl.sum(sums, axis=0) * sign))


@triton.jit
def _integers(numbers, first, length, row, tables):
    """As `_floats`; the extremes keep every digit, as the bits of an int64."""
    lanes = tl.arange(0, _INTEGER_BLOCK)
    total = tl.zeros([_INTEGER_BLOCK], tl.float64)
    squares = tl.zeros([_INTEGER_BLOCK], tl.float64)
    some = tl.load(numbers + first).to(tl.int64)
    largest = tl.zeros([_INTEGER_BLOCK], tl.int64) + some
    smallest = tl.zeros([_INTEGER_BLOCK], tl.int64) + some
    zeros = tl.zeros([_INTEGER_BLOCK], tl.int32)
    for start in range(0, length, _INTEGER_BLOCK):
        inside = start + lanes < length
        value = tl.load(numbers + first + start + lanes, mask=inside, other=0).to(tl.int64)
        exact = value.to(tl.float64)
        total += exact
        squares += exact * exact
        largest = tl.maximum(largest, tl.where(inside, value, some))
        smallest = tl.minimum(smallest, tl.where(inside, value, some))
        zeros += (inside & (value == 0)).to(tl.int32)
    tl.store(row + _SUM, tl.sum(total))
    tl.store(row + _SQUARES, tl.sum(squares))
    tl.store(row + _MAX, tl.max(largest).to(tl.float64, bitcast=True))
    tl.store(row + _MIN, tl.min(smallest).to(tl.float64, bitcast=True))
    tl.store(row + _ZEROS, tl.sum(zeros).to(tl.float64))
    tl.store(row + _NANS, 0.0)
    tl.store(row + _INFS, 0.0)
    tl.store(row + _NEGATIVE_INFS, 0.0)
    for number in tl.static_range(_SUMS):
        _integer_sketch(numbers, first, length, row, tables, number)


@triton.jit
def _advanced(state, tables):
    """Return remainders multiplied by x^(32 * LANES), a byte at a time from four tables of 256 words."""
    result = tl.load(tables + (state & 0xFF))
    result ^= tl.load(tables + 256 + ((state >> 8) & 0xFF))
    result ^= tl.load(tables + 512 + ((state >> 16) & 0xFF))
    return result ^ tl.load(tables + 768 + (state >> 24))


@triton.jit
def _checksum(address, size, tables):
    """Return the remainder of some bytes; zeros are put before them, which change nothing.

    Lane j takes every LANES-th word from word j on; at the end each lane is multiplied by what follows it.
    """
    lanes = tl.arange(0, _LANES)
    words = (size + 3) // 4
    steps = (words + _LANES - 1) // _LANES
    before = steps * _LANES - words
    state = tl.zeros([_LANES], tl.uint32)
    if (address | size) & 3 == 0:
        numbers = address.to(tl.pointer_type(tl.uint32))
        for step in range(steps):
            place = step * _LANES + lanes - before
            state = _advanced(state, tables) ^ tl.load(numbers + place, mask=place >= 0, other=0)
    else:
        octets = address.to(tl.pointer_type(tl.uint8))
        missing = words * 4 - size
        for step in range(steps):
            place = (step * _LANES + lanes - before) * 4 - missing
            word = tl.load(octets + place, mask=place >= 0, other=0).to(tl.uint32)
            word |= tl.load(octets + place + 1, mask=place + 1 >= 0, other=0).to(tl.uint32) << 8
            word |= tl.load(octets + place + 2, mask=place + 2 >= 0, other=0).to(tl.uint32) << 16
            word |= tl.load(octets + place + 3, mask=place + 3 >= 0, other=0).to(tl.uint32) << 24
            state = _advanced(state, tables) ^ word
    factor = tl.load(tables + 1024 + lanes)
    product = tl.zeros([_LANES], tl.uint32)
    for _ in range(32):
        product ^= tl.where((factor >> 31) != 0, state, 0)
        factor = factor << 1
        state = (state >> 1) ^ tl.where((state & 1) != 0, _POLYNOMIAL, 0).to(tl.uint32)
    return tl.xor_sum(product)


@triton.jit
def _typed(address, KIND: tl.constexpr, ALIGNED: tl.constexpr):
    """Return an address as a pointer to numbers."""
    if KIND == _FLOAT32:
        numbers = address.to(tl.pointer_type(tl.float32))
    elif KIND == _FLOAT16:
        numbers = address.to(tl.pointer_type(tl.float16))
    elif KIND == _BFLOAT16:
        numbers = address.to(tl.pointer_type(tl.bfloat16))
    elif KIND == _FLOAT8_E4M3:
        numbers = address.to(tl.pointer_type(tl.float8e4nv))
    elif KIND == _FLOAT8_E5M2:
        numbers = address.to(tl.pointer_type(tl.float8e5))
    elif KIND == _INT64:
        numbers = address.to(tl.pointer_type(tl.int64))
    elif KIND == _INT32:
        numbers = address.to(tl.pointer_type(tl.int32))
    elif KIND == _INT16:
        numbers = address.to(tl.pointer_type(tl.int16))
    elif KIND == _INT8:
        numbers = address.to(tl.pointer_type(tl.int8))
    else:
        numbers = address.to(tl.pointer_type(tl.uint8))
    if ALIGNED:
        numbers = tl.multiple_of(numbers, 16)
    return numbers


@triton.jit
def _measured(
    address, count, part, row, checksum, tables,
    KIND: tl.constexpr, ALIGNED: tl.constexpr, CHECKSUM: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Measure one chunk of a tensor."""
    chunk = _chunk_of(count)
    first = part * chunk
    length = tl.minimum(chunk, count - first)
    numbers = _typed(address, KIND, ALIGNED)
    if KIND == _FLOAT32:
        _floats(numbers, first, length, row, tables, KIND, _BLOCK_OF_FLOAT32)
    elif KIND <= _FLOAT8_E5M2:
        _floats(numbers, first, length, row, tables, KIND, _BLOCK)
    else:
        _integers(numbers, first, length, row, tables)
    if CHECKSUM:
        remainder = _checksum(address + first * SIZE, length * SIZE, tables.to(tl.pointer_type(tl.uint32)))
        tl.store(checksum, remainder)


@triton.jit(
    do_not_specialize=[
        *("address0", "count0", "address1", "count1", "address2", "count2", "results", "checksums", "tables"),
    ]
)
def measure_few(
    address0, count0, address1, count1, address2, count2, results, checksums, tables,
    KIND: tl.constexpr, ALIGNED: tl.constexpr, CHECKSUM: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Measure one chunk of one of three tensors, of which the last may not be there: their counts are 0.

    Addresses are plain numbers, so that no launch is compiled for the alignment of another.
    """
    program = tl.program_id(0).to(tl.int64)
    row = results.to(tl.pointer_type(tl.float64)) + program * _FIELDS
    checksum = checksums.to(tl.pointer_type(tl.uint32)) + program
    ends0 = _programs_of(count0)
    ends1 = ends0 + _programs_of(count1)
    address, count, part = address0, count0, program
    if program >= ends1:
        address, count, part = address2, count2, program - ends1
    elif program >= ends0:
        address, count, part = address1, count1, program - ends0
    _measured(address, count, part, row, checksum, tables, KIND, ALIGNED, CHECKSUM, SIZE)


@triton.jit(do_not_specialize=["table", "rows", "results", "checksums", "tables"])
def measure_many(
    table, rows, results, checksums, tables,
    KIND: tl.constexpr, ALIGNED: tl.constexpr, CHECKSUM: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Measure one chunk of a tensor in a table: the first program of each, then their addresses, then their counts."""
    program = tl.program_id(0).to(tl.int64)
    row = results.to(tl.pointer_type(tl.float64)) + program * _FIELDS
    checksum = checksums.to(tl.pointer_type(tl.uint32)) + program
    starts = table.to(tl.pointer_type(tl.int64))
    numbers = tl.arange(0, _SEARCHED)
    tensor = program * 0 - 1
    for begin in range(0, rows, _SEARCHED):
        # The host writes tables between launches: `.cv` reads past cache lines that an earlier launch filled.
        start = tl.load(
            starts + begin + numbers, mask=begin + numbers < rows, other=0x7FFFFFFFFFFFFFFF, cache_modifier=".cv"
        )
        tensor += tl.sum((start <= program).to(tl.int64))
    part = program - tl.load(starts + tensor, cache_modifier=".cv")
    address = tl.load(starts + rows + tensor, cache_modifier=".cv")
    count = tl.load(starts + 2 * rows + tensor, cache_modifier=".cv")
    _measured(address, count, part, row, checksum, tables, KIND, ALIGNED, CHECKSUM, SIZE)
