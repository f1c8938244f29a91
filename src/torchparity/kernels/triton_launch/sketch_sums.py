"""The sums of a sketch for one block, as a product of matrices.

A block is a matrix of groups by places in a group. Its product with the signs of the places has the eight sums of every
group; tensor cores compute it from numbers of 8 or 11 bits, which products with 1 and -1 keep exact, and a float32 is
three such numbers.
"""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import signs
from torchparity.kernels.triton_launch import chunks
from torchparity.kernels.triton_launch.sketch_signs import flipped, group_words

COLUMNS = 16  # the fewest that a product of matrices has; the sketch needs half of them
_GROUP, _SUMS = tl.constexpr(signs.GROUP), tl.constexpr(signs.SUMS)
_FLOAT32, _FLOAT16 = tl.constexpr(chunks.FLOAT32), tl.constexpr(chunks.FLOAT16)


@triton.jit
def _top_bits(value):
    """Return float32 numbers without their last 16 bits: a bfloat16, and what is left of them."""
    top = (value.to(tl.uint32, bitcast=True) & 0xFFFF0000).to(tl.float32, bitcast=True)
    return top.to(tl.bfloat16), value - top


@triton.jit
def sketch_sums(value, places, first, KIND: tl.constexpr):
    """Return the sums of each group of a block, whose first element has number `first`, with their signs."""
    if KIND == _FLOAT32:  # small parts first: tensor cores cut off what is small against the sum so far
        high, rest = _top_bits(value)
        middle, low = _top_bits(rest)
        sums = tl.dot(low.to(tl.bfloat16), places.to(tl.bfloat16))
        sums = tl.dot(middle, places.to(tl.bfloat16), sums)
        sums = tl.dot(high, places.to(tl.bfloat16), sums)
    elif KIND == _FLOAT16:
        sums = tl.dot(value.to(tl.float16), places.to(tl.float16))
    else:
        sums = tl.dot(value.to(tl.bfloat16), places.to(tl.bfloat16))
    used, _ = tl.split(tl.permute(tl.reshape(sums, [value.shape[0], 2, _SUMS]), (0, 2, 1)))
    return flipped(used, group_words(first // _GROUP, value.shape[0]))
