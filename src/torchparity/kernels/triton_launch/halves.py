"""Whole blocks of bfloat16 or float16, two numbers in a register: half the instructions that `floats.py` needs.

Extremes and zeros are those of pairs. Eight neighbours, and their squares, are added up in float32, those sums in
float64. That is exact for the sum of numbers of 8 or 11 bits unless they differ by orders of magnitude; a norm is off
by a ten-millionth at most (docs/decisions/0027). A device before `chunks.PAIRS_SINCE` lacks the instructions: an A100
neither adds, multiplies nor compares pairs of bfloat16.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import signs
from torchparity.kernels.triton_launch import chunks
from torchparity.kernels.triton_launch.chunks import in_threads
from torchparity.kernels.triton_launch.sketch_sums import sketch_sums
from torchparity.kernels.triton_launch.strides import elements

LEAST = 2.0**-82  # squares of bfloat16 numbers vanish in float32 where all are smaller, even when they are scaled
VECTOR = 8  # neighbours that a thread loads at a time
_BLOCK = tl.constexpr(chunks.BLOCK)
_GROUP, _GROUPS = tl.constexpr(signs.GROUP), tl.constexpr(chunks.BLOCK // signs.GROUP)
_VECTOR, _VECTORS = tl.constexpr(VECTOR), tl.constexpr(signs.GROUP // VECTOR)
_ROWS = tl.constexpr(chunks.THREADS * VECTOR // signs.GROUP)  # that the threads load at a time
_SUMS = tl.constexpr(signs.SUMS)
_UP = tl.constexpr(2.0**32)  # scales bfloat16
_BFLOAT16 = tl.constexpr(chunks.BFLOAT16)


@triton.jit
def _of_pairs(left, right, NAME: tl.constexpr, KIND: tl.constexpr):
    """Return what an instruction makes of two blocks, two numbers of each at a time."""
    if KIND == _BFLOAT16:
        instruction: tl.constexpr = NAME + ".bf16x2 $0, $1, $2;"
    else:
        instruction: tl.constexpr = NAME + ".f16x2 $0, $1, $2;"
    return tl.inline_asm_elementwise(instruction, "=r,r,r", [left, right], dtype=left.dtype, is_pure=True, pack=2)


@triton.jit
def _as_float32(value, KIND: tl.constexpr):
    """Convert a block: a bfloat16 is the upper half of a float32, which the compiler reaches by a detour."""
    if KIND == _BFLOAT16:
        instructions: tl.constexpr = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"
        number = tl.inline_asm_elementwise(instructions, "=r,=r,r", [value], dtype=tl.float32, is_pure=True, pack=2)
    else:
        number = value.to(tl.float32)
    return number


@triton.jit
def _joined_rows(block, NAME: tl.constexpr, KIND: tl.constexpr):
    """Join the rows of a block that one thread has loaded: those that are half of it apart, again and again."""
    tl.static_assert(_GROUPS == 8 * _ROWS)
    for _ in tl.static_range(3):
        both = tl.reshape(block, [2, block.shape[0] // 2, _GROUP])
        upper, lower = tl.split(tl.permute(both, (1, 2, 0)))
        block = _of_pairs(upper, lower, NAME, KIND)
    return block


@triton.jit
def _zeros(value, KIND: tl.constexpr):
    """Return how many numbers of a block are zero, for each vector of a thread."""
    equal: tl.constexpr = "set.eq.bf16x2" if KIND == _BFLOAT16 else "set.eq.f16x2"
    count = _joined_rows(_of_pairs(value, tl.zeros_like(value), equal, KIND), "add", KIND)
    left, right = tl.split(tl.permute(tl.reshape(count, [_ROWS, _VECTORS, 2, 4]), (0, 1, 3, 2)))
    four = _of_pairs(left, right, "add", KIND)
    left, right = tl.split(tl.permute(tl.reshape(four, [_ROWS, _VECTORS, 2, 2]), (0, 1, 3, 2)))
    return tl.sum(_of_pairs(left, right, "add", KIND).to(tl.float32), axis=2)


@triton.jit
def _by_vector(joined):
    return tl.reshape(joined.to(tl.float32), [_ROWS, _VECTORS, _VECTOR])


@triton.jit
def whole_blocks_of_halves(
    numbers, first, whole, layout, places, total, squares, zeros, STRIDED: tl.constexpr, KIND: tl.constexpr
):
    """Add the first `whole` elements of a chunk, all of whole blocks, to sums; return those, sketch and extremes."""
    lanes = tl.arange(0, _GROUPS)[:, None] * _GROUP + tl.arange(0, _GROUP)[None, :]
    element = tl.bfloat16 if KIND == _BFLOAT16 else tl.float16
    sums = tl.zeros([_GROUPS, _SUMS], tl.float32)
    high = tl.full([_ROWS, _GROUP], float("-inf"), element)
    low = tl.full([_ROWS, _GROUP], float("inf"), element)
    for start in range(0, whole, _BLOCK):
        value = tl.load(elements(numbers, first + start + lanes, layout, STRIDED, _VECTOR))
        sums += sketch_sums(value, places, first + start, KIND)
        high = _of_pairs(high, _joined_rows(value, "max", KIND), "max", KIND)
        low = _of_pairs(low, _joined_rows(value, "min", KIND), "min", KIND)
        zeros += _zeros(value, KIND)
        scaled = _of_pairs(value, tl.full(value.shape, _UP, value.dtype), "mul", KIND) if KIND == _BFLOAT16 else value
        number = _as_float32(scaled, KIND)
        total += tl.sum(tl.sum(in_threads(number, _VECTOR), axis=3).to(tl.float64), axis=0)
        squares += tl.sum(tl.sum(in_threads(number * number, _VECTOR), axis=3).to(tl.float64), axis=0)
    if KIND == _BFLOAT16:
        total, squares = total * (1 / _UP), squares * (1 / (_UP * _UP))
    sketch = tl.sum(sums.to(tl.float64), axis=0)
    return sketch, total, squares, tl.max(_by_vector(high), axis=2), tl.min(_by_vector(low), axis=2), zeros
