"""The pass over a chunk of whole numbers or truth values."""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import row as fields
from torchparity.kernels import signs
from torchparity.kernels.triton_launch.sketch_signs import group_words, place_words

_GROUP, _SUMS = tl.constexpr(signs.GROUP), tl.constexpr(signs.SUMS)
_BLOCK, _GROUPS = tl.constexpr(1024), tl.constexpr(1024 // signs.GROUP)
_SUM, _SQUARES = tl.constexpr(fields.SUM), tl.constexpr(fields.SQUARES)
_MAX, _MIN, _ZEROS = tl.constexpr(fields.MAX), tl.constexpr(fields.MIN), tl.constexpr(fields.ZEROS)
_NANS, _INFS = tl.constexpr(fields.NANS), tl.constexpr(fields.INFS)
_NEGATIVE_INFS, _SKETCH = tl.constexpr(fields.NEGATIVE_INFS), tl.constexpr(fields.SKETCH)


@triton.jit
def _integer_sketch(numbers, first, length, row, NUMBER: tl.constexpr):
    """Store one sum of the sketch, in float64; a pass of its own, since all eight would need too many registers."""
    lanes = tl.arange(0, _GROUPS)[:, None] * _GROUP + tl.arange(0, _GROUP)[None, :]
    sums = tl.zeros([_GROUPS, _GROUP], tl.float64)
    for start in range(0, length, _BLOCK):
        value = tl.load(numbers + first + start + lanes, mask=start + lanes < length, other=0).to(tl.int64)
        words = group_words((first + start) // _GROUP, _GROUPS)
        sums += value.to(tl.float64) * (1.0 - 2.0 * ((words >> NUMBER) & 1).to(tl.float64))[:, None]
    sign = 1.0 - 2.0 * ((place_words() >> NUMBER) & 1).to(tl.float64)
    tl.store(row + _SKETCH + NUMBER, tl.sum(tl.sum(sums, axis=0) * sign))


@triton.jit
def measure_integers(numbers, first, length, row):
    """Store the row of a chunk; the extremes keep every digit, as the bits of an int64."""
    lanes = tl.arange(0, _BLOCK)
    total = tl.zeros([_BLOCK], tl.float64)
    squares = tl.zeros([_BLOCK], tl.float64)
    some = tl.load(numbers + first).to(tl.int64)
    largest = tl.zeros([_BLOCK], tl.int64) + some
    smallest = tl.zeros([_BLOCK], tl.int64) + some
    zeros = tl.zeros([_BLOCK], tl.int32)
    for start in range(0, length, _BLOCK):
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
        _integer_sketch(numbers, first, length, row, number)
