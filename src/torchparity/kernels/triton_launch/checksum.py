"""The CRC-32 of a chunk's bytes: many lanes, each over every so many words."""

# Triton reads annotations, so they are not postponed here, and types are Triton's own.
import triton
import triton.language as tl

LANES = 1024  # words that a program takes at a time
_LANES = tl.constexpr(LANES)
_POLYNOMIAL = tl.constexpr(0xEDB88320)


@triton.jit
def _advanced(state, tables):
    """Return remainders multiplied by x^(32 * LANES), a byte at a time from four tables of 256 words."""
    result = tl.load(tables + (state & 0xFF))
    result ^= tl.load(tables + 256 + ((state >> 8) & 0xFF))
    result ^= tl.load(tables + 512 + ((state >> 16) & 0xFF))
    return result ^ tl.load(tables + 768 + (state >> 24))


@triton.jit
def checksum_of(address, size, tables):
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
