"""CRC-32 in parts: the checksum of a whole from the checksums of its pieces.

A CRC is the remainder of a polynomial over GF(2). Appending n zero bytes multiplies it by
x^(8n); so the checksum of two pieces is the first, multiplied by the length of the second,
plus (which is xor) the second. Bits are reflected, as zlib has them: the highest bit is x^0.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from isal import isal_zlib
from numba import njit

_POLYNOMIAL = 0xEDB88320
_ONE = 0x80000000


@njit(nogil=True, cache=True)
def times(left: Any, right: Any) -> Any:
    """Return the product of two remainders."""
    left, right, product = np.uint32(left), np.uint32(right), np.uint32(0)
    for bit in range(32):
        if right & np.uint32(_ONE >> bit):
            product ^= left
        left = (left >> np.uint32(1)) ^ (np.uint32(_POLYNOMIAL) if left & np.uint32(1) else np.uint32(0))
    return product


@njit(nogil=True, cache=True)
def after_zeros(count: int) -> Any:
    """Return x^(8 * count): what a checksum is multiplied with when `count` bytes follow."""
    result: Any = np.uint32(_ONE)  # x^0
    square: Any = np.uint32(_ONE >> 8)  # x^8
    while count > 0:
        if count & 1:
            result = times(result, square)
        square = times(square, square)
        count >>= 1
    return result


@njit(nogil=True, cache=True)
def joined(first: int, second: int, second_bytes: int) -> Any:
    """Return the CRC-32 of two pieces from their CRC-32s, as zlib's crc32_combine does."""
    return times(first, after_zeros(second_bytes)) ^ np.uint32(second)


@cache
def compiled_crc() -> int:
    """Return the address of ISA-L's CRC-32 for compiled code, or 0 where the library does not show it.

    Its arguments are the checksum so far, the address of the bytes and their number.
    """
    try:
        function = ctypes.CDLL(isal_zlib.__file__).crc32_gzip_refl
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
