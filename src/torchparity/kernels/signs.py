"""The signs of a sketch: fixed in the format for ever, the same on every device (docs/format.md).

A sketch is 8 sums of a tensor's finite elements, each with signs of its own. The signs of an element are the bits of
one byte, sum k taking bit k, a 1 for minus: `PLACES[index % 128] ^ group_words(index // 128)`, with the index in
row-major order. Numba and Triton freeze these constants when they compile.

The bytes of the 128 places of a group are a Walsh function of the vector of 16 it lies in, times a byte of its lane,
times a sign that all sums share, so that eight vectors are added to the eight sums by one fast Walsh-Hadamard
transform. The bytes of the lanes are one from each coset of the Walsh functions: no two places have equal or opposite
bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SUMS = 8
GROUP = 128  # elements that share the byte of their group
LANES = 16
PLACES = bytes.fromhex(
    "d27cf37202f91fadbd3675a4e24399c778d659d8a8ac4af8e86320f148e933921eb03f41ceca2c9e8efab997d170aaf4"
    "4be595149b9f79cb2450ecc27b25005edd73fc7d0df6ef5db23985abedb396378826a928a75cbaf7186c2ffeb8193c9d"
    "11bfcfb1c13a2391810a4967217fa5fbbb1565e4949089c42ba01ccd8b2a0f51"
)
SEED = 0xEAD405BA
FIRST_FACTOR, SECOND_FACTOR = 0x85EBCA6B, 0xC2B2AE35  # those of MurmurHash3's last step
FIRST_SHIFT, SECOND_SHIFT, THIRD_SHIFT = 16, 13, 16
_LIMIT32, _LIMIT64 = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)
_NARROW = ("torch.float32", "torch.float16", "torch.bfloat16", "torch.float8", "torch.float4")
_NARROW_PAIRS = ("torch.complex64", "torch.complex32", "torch.bcomplex32")


def group_words(first: int, count: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of some groups, from that of number `first` on."""
    word = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(SEED)).astype(np.uint32)
    word ^= word >> np.uint32(FIRST_SHIFT)
    word *= np.uint32(FIRST_FACTOR)
    word ^= word >> np.uint32(SECOND_SHIFT)
    word *= np.uint32(SECOND_FACTOR)
    word ^= word >> np.uint32(THIRD_SHIFT)
    return word.astype(np.uint8)


def signs_of(words: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return 1 or -1 for each byte (rows) and each sum (columns)."""
    bits = np.asarray(words, np.uint8)[..., None] >> np.arange(SUMS, dtype=np.uint8) & 1
    return np.where(bits, -1.0, 1.0)


PLACE_SIGNS = np.ascontiguousarray(signs_of(np.frombuffer(PLACES, np.uint8)).T)  # sum, place
WORD_SIGNS = signs_of(np.arange(256))  # byte, sum


def walsh_byte(vector: int) -> int:
    """Return the byte of the Walsh function of one of a group's vectors."""
    return sum((bin(number & vector).count("1") & 1) << number for number in range(SUMS))


def shared_flips(vector: int) -> list[bool]:
    """Return for each lane of one of a group's vectors whether all sums flip its sign, besides lane and Walsh sign."""
    walsh = walsh_byte(vector)
    places = PLACES[vector * LANES : (vector + 1) * LANES]
    return [place ^ lane ^ walsh == 0xFF for place, lane in zip(places, PLACES[:LANES], strict=True)]


def sketch_sums(block: npt.NDArray[np.float64], start: int) -> npt.NDArray[np.float64]:
    """Return the 8 sums of finite numbers, the first of which is element `start` of its tensor."""
    before = start % GROUP
    groups = -(-(before + block.size) // GROUP)
    whole = np.zeros(groups * GROUP)
    whole[before : before + block.size] = block
    by_group = whole.reshape(groups, GROUP) @ PLACE_SIGNS.T
    sums: npt.NDArray[np.float64] = (by_group * signs_of(group_words(start // GROUP, groups))).sum(axis=0)
    return sums


def packed_sums(sums: npt.NDArray[np.float64], *, wide: bool) -> bytes:
    """Return sums (in rows of 8) as a run has them: float64 where `wide`, else float32; one too large saturates."""
    limit = _LIMIT64 if wide else _LIMIT32
    return np.clip(sums, -limit, limit).astype("<f8" if wide else "<f4").tobytes()


def is_wide(dtype: str) -> bool:
    """Tell whether the sketch of a dtype has float64: that of float64, complex128, integers and bool."""
    return not dtype.startswith((*_NARROW, *_NARROW_PAIRS))
