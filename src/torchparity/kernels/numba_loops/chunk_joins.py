"""Joining the chunks that the programs of a launch measured: one checksum for each tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from torchparity.kernels.numba_loops.crc import after_zeros, times

_ONES = np.uint32(0xFFFFFFFF)


@njit(nogil=True, cache=True)
def joined_checksums(parts: Any, first: Any, last: Any, counts: Any, sizes: Any, chunks: Any) -> Any:
    """Return the CRC-32 of each tensor from the remainders of its chunks, which have `chunks` elements but the last."""
    checksums = np.empty(first.size, np.uint32)
    for tensor in range(first.size):
        size = sizes[tensor]
        remainder = np.uint32(0)
        whole = after_zeros(chunks[tensor] * size)
        for chunk in range(first[tensor], last[tensor]):
            if chunk + 1 < last[tensor]:
                remainder = times(remainder, whole) ^ parts[chunk]
            else:
                rest = counts[tensor] - (chunk - first[tensor]) * chunks[tensor]
                remainder = times(remainder, after_zeros(rest * size)) ^ parts[chunk]
        # zlib begins with ones and inverts the end.
        checksums[tensor] = remainder ^ times(_ONES, after_zeros(counts[tensor] * size)) ^ _ONES
    return checksums
