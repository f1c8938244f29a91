"""The signs of a sketch (`kernels/signs.py`) as Triton computes them."""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

from torchparity.kernels import signs

_FLIPS = [flip for vector in range(signs.SUMS) for flip in signs.shared_flips(vector)]


def _word(places: bytes) -> tl.constexpr:
    return tl.constexpr(int.from_bytes(places, "little"))


def _bits(flips: list[bool]) -> tl.constexpr:
    return tl.constexpr(sum(1 << place for place, flip in enumerate(flips) if flip))


_GROUP = tl.constexpr(signs.GROUP)
_FIRST_LANES, _LAST_LANES = _word(signs.PLACES[:8]), _word(signs.PLACES[8:16])
_WALSH = _word(bytes(map(signs.walsh_byte, range(signs.SUMS))))
_FIRST_FLIPS, _LAST_FLIPS = _bits(_FLIPS[:64]), _bits(_FLIPS[64:])
_SEED = tl.constexpr(signs.SEED)
_FIRST_FACTOR, _SECOND_FACTOR = tl.constexpr(signs.FIRST_FACTOR), tl.constexpr(signs.SECOND_FACTOR)
_FIRST_SHIFT, _SECOND_SHIFT = tl.constexpr(signs.FIRST_SHIFT), tl.constexpr(signs.SECOND_SHIFT)
_THIRD_SHIFT = tl.constexpr(signs.THIRD_SHIFT)
_LANES = tl.constexpr(signs.LANES)


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
def place_words():
    """Return the bytes of a group's places, computed: a load would keep a program waiting."""
    place = tl.arange(0, _GROUP)
    vector, lane = (place // _LANES).to(tl.uint64), (place % _LANES).to(tl.uint64)
    of_lane = tl.where(lane < 8, tl.full([_GROUP], _FIRST_LANES, tl.uint64), tl.full([_GROUP], _LAST_LANES, tl.uint64))
    flips = tl.where(place < 64, tl.full([_GROUP], _FIRST_FLIPS, tl.uint64), tl.full([_GROUP], _LAST_FLIPS, tl.uint64))
    word = (of_lane >> (lane % 8 * 8)) ^ (tl.full([_GROUP], _WALSH, tl.uint64) >> (vector * 8))
    return ((word & 255) ^ ((flips >> (place % 64).to(tl.uint64)) & 1) * 255).to(tl.uint32)


@triton.jit
def sign_matrix(words, COLUMNS: tl.constexpr):
    """Return 1 and -1 for the bits of some bytes: a row for each byte, a column for each bit from the lowest on."""
    return 1.0 - 2.0 * ((words[:, None] >> tl.arange(0, COLUMNS)[None, :]) & 1).to(tl.float32)


@triton.jit
def flipped(sums, words):
    """Return sums whose signs are flipped where the bit of their column is set in the byte of their row."""
    columns = tl.arange(0, sums.shape[1])
    signs_of_sums = (words[:, None] << (31 - columns)[None, :]) & 0x80000000
    return (sums.to(tl.uint32, bitcast=True) ^ signs_of_sums.to(tl.uint32)).to(tl.float32, bitcast=True)
