"""Checksums of a tensor's contiguous bytes: CRC-32, and the exclusive or of `summary_mode: xor`."""

from __future__ import annotations

import numpy as np
from isal import isal_zlib

from torchparity.tensors import HostTensor

_WORD = 8


def crc_checksum(tensor: HostTensor) -> str:
    """Return the CRC-32 of the contiguous bytes as 8 hex digits."""
    return f"{isal_zlib.crc32(tensor.raw()):08x}"


def xor_checksum(tensor: HostTensor) -> str:
    """Return the exclusive or of the contiguous bytes as 64-bit words, the last padded with zeros; 0 if empty.

    It is msprobe's. Swapping words or adding a pair of equal words leaves it unchanged, so it
    detects less than a CRC-32.
    """
    raw = tensor.raw()
    whole = raw.size // _WORD * _WORD
    rest = np.zeros(_WORD, np.uint8)
    rest[: raw.size - whole] = raw[whole:]
    words = np.bitwise_xor.reduce(raw[:whole].view("<u8")) if whole else np.uint64(0)
    return f"0x{int(words ^ rest.view('<u8')[0]):016x}"
