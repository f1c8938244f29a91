"""The checksum of `summary_mode: xor`: one exclusive or over a tensor's bytes, eight at a time."""

from __future__ import annotations

import numpy as np

from torchparity.tensors import HostTensor

_WORD = 8


def xor_checksum(tensor: HostTensor) -> str:
    """Return the exclusive or of the contiguous bytes as 64-bit words, the last filled up with zeros; 0 for nothing.

    It is msprobe's. Words may change places and equal pairs vanish, so it tells less than a CRC-32.
    """
    raw = tensor.raw()
    whole = raw.size // _WORD * _WORD
    rest = np.zeros(_WORD, np.uint8)
    rest[: raw.size - whole] = raw[whole:]
    words = np.bitwise_xor.reduce(raw[:whole].view("<u8")) if whole else np.uint64(0)
    return f"0x{int(words ^ rest.view('<u8')[0]):016x}"
