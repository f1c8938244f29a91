"""The pass over tensors on a CUDA device, in Triton: every chunk of every tensor of a call in one launch.

A program reads one chunk and writes one row: sums in float64, extremes, counts and the
chunk's part of the CRC-32. Nothing is added up across programs here, so the result does not
depend on the order in which they run; `arenas/cuda.py` joins the rows on the host.

A block is a table of groups of the sketch (`signs.py`) by places in a group. The sums of the sketch are added up in
float32 for each place, with the sign of the group; the signs of the places come last, and the rest is float64.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import row as fields
from torchparity.kernels import signs

CHUNK = 65536  # elements of a program
LANES = 1024  # words that a program's checksum takes at a time
_GROUPS, _GROUP = tl.constexpr(8), tl.constexpr(signs.GROUP)
_BLOCK = tl.constexpr(8 * signs.GROUP)  # more would need more registers than two programs of a processor have
PLACE_WORDS = 1024 + LANES  # where the bytes of a group's places are in the tables, after those of the checksum
_PLACE_WORDS = tl.constexpr(PLACE_WORDS)
_CHUNK = tl.constexpr(CHUNK)
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
FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, INT64, INT32, INT16, INT8, UINT8 = range(10)
_FLOAT32, _FLOAT16, _BFLOAT16, _FLOAT8_E4M3, _FLOAT8_E5M2 = (tl.constexpr(code) for code in range(5))
_INT64, _INT32, _INT16, _INT8 = (tl.constexpr(code) for code in range(5, 9))


@triton.jit
def _group_words(group):
    """Return the bytes of a block's groups, from that of number `group` on, as `signs.group_words` does."""
    word = (group + tl.arange(0, _GROUPS)).to(tl.uint32)
    word = (word + _SEED).to(tl.uint32)
    word = word ^ (word >> _FIRST_SHIFT)
    word = (word * _FIRST_FACTOR).to(tl.uint32)
    word = word ^ (word >> _SECOND_SHIFT)
    word = (word * _SECOND_FACTOR).to(tl.uint32)
    return word ^ (word >> _THIRD_SHIFT)


@triton.jit
def _signed(value, words, NUMBER: tl.constexpr):
    """Return a block's numbers with the signs that their groups have in one sum of the sketch."""
    sign = 1.0 - 2.0 * ((words >> NUMBER) & 1).to(tl.float32)
    return value * sign.to(value.dtype)[:, None]


@triton.jit
def _store_sum(row, tables, sums, NUMBER: tl.constexpr):
    """Store one sum of the sketch; `sums` lack the signs of the places."""
    words = tl.load(tables.to(tl.pointer_type(tl.uint32)) + _PLACE_WORDS + tl.arange(0, _GROUP))
    sign = 1.0 - 2.0 * ((words >> NUMBER) & 1).to(tl.float64)
    tl.store(row + _SKETCH + NUMBER, tl.sum(tl.sum(sums.to(tl.float64), axis=0) * sign))


@triton.jit
def _careful_counts(numbers, first, count):
    """Return how many numbers of a chunk are nan, inf and -inf; a second pass, since hardly any chunk has one."""
    lanes = tl.arange(0, _BLOCK)
    nans = tl.zeros([_BLOCK], tl.int32)
    infs = tl.zeros([_BLOCK], tl.int32)
    negative = tl.zeros([_BLOCK], tl.int32)
    for start in range(0, _CHUNK, _BLOCK):
        places = first + start + lanes
        value = tl.load(numbers + places, mask=places < count, other=0.0).to(tl.float32)
        nans += (value != value).to(tl.int32)
        infs += (value == float("inf")).to(tl.int32)
        negative += (value == float("-inf")).to(tl.int32)
    return tl.sum(nans), tl.sum(infs), tl.sum(negative)


@triton.jit
def _floats(numbers, first, count, row, tables):
    lanes = tl.arange(0, _GROUPS)[:, None] * _GROUP + tl.arange(0, _GROUP)[None, :]
    total = tl.zeros([_GROUPS, _GROUP], tl.float64)
    squares = tl.zeros([_GROUPS, _GROUP], tl.float64)
    largest = tl.full([_GROUPS, _GROUP], float("-inf"), tl.float32)
    smallest = tl.full([_GROUPS, _GROUP], float("inf"), tl.float32)
    zeros = tl.zeros([_GROUPS, _GROUP], tl.int32)
    broken = tl.zeros([_GROUPS, _GROUP], tl.int32)
    sum0 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    sum1 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    sum2 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    sum3 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    sum4 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    sum5 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    sum6 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    sum7 = tl.zeros([_GROUPS, _GROUP], tl.float32)
    for start in range(0, _CHUNK, _BLOCK):
        places = first + start + lanes
        inside = places < count
        value = tl.load(numbers + places, mask=inside, other=0.0).to(tl.float32)
        finite = (value.to(tl.int32, bitcast=True) & 0x7F800000) != 0x7F800000
        kept = tl.where(finite, value, 0.0)
        exact = kept.to(tl.float64)
        total += exact
        squares += exact * exact
        counted = finite & inside
        largest = tl.maximum(largest, tl.where(counted, value, float("-inf")))
        smallest = tl.minimum(smallest, tl.where(counted, value, float("inf")))
        zeros += (inside & (value == 0)).to(tl.int32)
        broken += (~finite).to(tl.int32)
        words = _group_words((first + start) // _GROUP)
        sum0 += _signed(kept, words, 0)
        sum1 += _signed(kept, words, 1)
        sum2 += _signed(kept, words, 2)
        sum3 += _signed(kept, words, 3)
        sum4 += _signed(kept, words, 4)
        sum5 += _signed(kept, words, 5)
        sum6 += _signed(kept, words, 6)
        sum7 += _signed(kept, words, 7)
    tl.store(row + _SUM, tl.sum(total))
    tl.store(row + _SQUARES, tl.sum(squares))
    tl.store(row + _MAX, tl.max(largest).to(tl.float64))
    tl.store(row + _MIN, tl.min(smallest).to(tl.float64))
    tl.store(row + _ZEROS, tl.sum(zeros).to(tl.float64))
    _store_sum(row, tables, sum0, 0)
    _store_sum(row, tables, sum1, 1)
    _store_sum(row, tables, sum2, 2)
    _store_sum(row, tables, sum3, 3)
    _store_sum(row, tables, sum4, 4)
    _store_sum(row, tables, sum5, 5)
    _store_sum(row, tables, sum6, 6)
    _store_sum(row, tables, sum7, 7)
    if tl.sum(broken) > 0:
        nans, infs, negative = _careful_counts(numbers, first, count)
        tl.store(row + _NANS, nans.to(tl.float64))
        tl.store(row + _INFS, infs.to(tl.float64))
        tl.store(row + _NEGATIVE_INFS, negative.to(tl.float64))
    else:
        tl.store(row + _NANS, 0.0)
        tl.store(row + _INFS, 0.0)
        tl.store(row + _NEGATIVE_INFS, 0.0)


@triton.jit
def _integer_sketch(numbers, first, count, row, tables, NUMBER: tl.constexpr):
    """Store two sums of the sketch, in float64; a pass of its own, since all eight would need too many registers."""
    lanes = tl.arange(0, _GROUPS)[:, None] * _GROUP + tl.arange(0, _GROUP)[None, :]
    even = tl.zeros([_GROUPS, _GROUP], tl.float64)
    odd = tl.zeros([_GROUPS, _GROUP], tl.float64)
    for start in range(0, _CHUNK, _BLOCK):
        places = first + start + lanes
        value = tl.load(numbers + places, mask=places < count, other=0).to(tl.int64).to(tl.float64)
        words = _group_words((first + start) // _GROUP)
        even += _signed(value, words, NUMBER)
        odd += _signed(value, words, NUMBER + 1)
    _store_sum(row, tables, even, NUMBER)
    _store_sum(row, tables, odd, NUMBER + 1)


@triton.jit
def _integers(numbers, first, count, row, tables):
    """As `_floats`; the extremes keep every digit, as the bits of an int64."""
    lanes = tl.arange(0, _BLOCK)
    total = tl.zeros([_BLOCK], tl.float64)
    squares = tl.zeros([_BLOCK], tl.float64)
    some = tl.load(numbers + first).to(tl.int64)
    largest = tl.zeros([_BLOCK], tl.int64) + some
    smallest = tl.zeros([_BLOCK], tl.int64) + some
    zeros = tl.zeros([_BLOCK], tl.int32)
    for start in range(0, _CHUNK, _BLOCK):
        places = first + start + lanes
        inside = places < count
        value = tl.load(numbers + places, mask=inside, other=0).to(tl.int64)
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
    _integer_sketch(numbers, first, count, row, tables, 0)
    _integer_sketch(numbers, first, count, row, tables, 2)
    _integer_sketch(numbers, first, count, row, tables, 4)
    _integer_sketch(numbers, first, count, row, tables, 6)


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


@triton.jit(do_not_specialize=["table", "rows", "results", "checksums", "tables"])
def measure(table, rows, results, checksums, tables, ROWS: tl.constexpr, CHECKSUM: tl.constexpr, FLOAT8: tl.constexpr):
    """Measure one chunk. The table has address, count, dtype, bytes of an element and first chunk of each tensor.

    Addresses are plain numbers, so that no launch is compiled for the alignment of another.
    """
    program = tl.program_id(0)
    entries = table.to(tl.pointer_type(tl.int64))
    numbers = tl.arange(0, ROWS)
    # The host writes tables between launches: `.cv` reads past cache lines that an earlier launch filled.
    starts = tl.load(entries + numbers * 5 + 4, mask=numbers < rows, other=0x7FFFFFFF, cache_modifier=".cv")
    tensor = tl.sum((starts <= program).to(tl.int32)) - 1
    entry = entries + tensor * 5
    address = tl.load(entry, cache_modifier=".cv")
    count = tl.load(entry + 1, cache_modifier=".cv")
    kind = tl.load(entry + 2, cache_modifier=".cv")
    size = tl.load(entry + 3, cache_modifier=".cv")
    first = (program - tl.load(entry + 4, cache_modifier=".cv")) * _CHUNK
    row = results.to(tl.pointer_type(tl.float64)) + program * _FIELDS
    if kind == _BFLOAT16:
        _floats(address.to(tl.pointer_type(tl.bfloat16)), first, count, row, tables)
    elif kind == _FLOAT32:
        _floats(address.to(tl.pointer_type(tl.float32)), first, count, row, tables)
    elif kind == _FLOAT16:
        _floats(address.to(tl.pointer_type(tl.float16)), first, count, row, tables)
    elif kind == _INT64:
        _integers(address.to(tl.pointer_type(tl.int64)), first, count, row, tables)
    elif kind == _INT32:
        _integers(address.to(tl.pointer_type(tl.int32)), first, count, row, tables)
    elif kind == _INT16:
        _integers(address.to(tl.pointer_type(tl.int16)), first, count, row, tables)
    elif kind == _INT8:
        _integers(address.to(tl.pointer_type(tl.int8)), first, count, row, tables)
    elif (kind == _FLOAT8_E4M3) | (kind == _FLOAT8_E5M2):
        if FLOAT8:
            if kind == _FLOAT8_E4M3:
                _floats(address.to(tl.pointer_type(tl.float8e4nv)), first, count, row, tables)
            else:
                _floats(address.to(tl.pointer_type(tl.float8e5)), first, count, row, tables)
    else:
        _integers(address.to(tl.pointer_type(tl.uint8)), first, count, row, tables)
    if CHECKSUM:
        length = tl.minimum(_CHUNK, count - first) * size
        part = _checksum(address + first * size, length, tables.to(tl.pointer_type(tl.uint32)))
        tl.store(checksums.to(tl.pointer_type(tl.uint32)) + program, part)
