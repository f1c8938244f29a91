"""The signs of a sketch (`kernels/signs.py`) as Triton computes them."""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import signs

LANES = 1024  # words that a program's checksum takes at a time
PLACE_WORDS = 1024 + LANES  # where the bytes of a group's places are in the tables, after those of the checksum
_GROUP, _PLACE_WORDS = tl.constexpr(signs.GROUP), tl.constexpr(PLACE_WORDS)
_SEED = tl.constexpr(signs.SEED)
_FIRST_FACTOR, _SECOND_FACTOR = tl.constexpr(signs.FIRST_FACTOR), tl.constexpr(signs.SECOND_FACTOR)
_FIRST_SHIFT, _SECOND_SHIFT = tl.constexpr(signs.FIRST_SHIFT), tl.constexpr(signs.SECOND_SHIFT)
_THIRD_SHIFT = tl.constexpr(signs.THIRD_SHIFT)


@triton.jit
def group_words(group, GROUPS: tl.constexpr):
    """Return the bytes of a block's groups, from that of number `group` on, as `signs.group_words` does."""
    word = (group + tl.arange(0, GROUPS)).to(tl.uint32)
    word = (word + _SEED).to(tl.uint32)
    word = word ^ (word >> _FIRST_SHIFT)
    word = (word * _FIRST_FACTOR).to(tl.uint32)
    word = word ^ (word >> _SECOND_SHIFT)
    word = (word * _SECOND_FACTOR).to(tl.uint32)
    return word ^ (word >> _THIRD_SHIFT)


@triton.jit
def place_words(tables):
    """Return the bytes of a group's places."""
    return tl.load(tables.to(tl.pointer_type(tl.uint32)) + _PLACE_WORDS + tl.arange(0, _GROUP))


@triton.jit
def sign_matrix(words, COLUMNS: tl.constexpr):
    """Return 1 and -1 for the bits of some bytes: a row for each byte, a column for each bit from the lowest on."""
    return 1.0 - 2.0 * ((words[:, None] >> tl.arange(0, COLUMNS)[None, :]) & 1).to(tl.float32)
