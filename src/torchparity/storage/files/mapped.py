"""Memory-mapped files and checksums of their bytes."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from torchparity.errors import DamagedFileError
from torchparity.storage.files.untrusted import open_sized
from torchparity.tensors import release_pages

_WINDOW = 64 << 20


def map_file(path: Path | str) -> npt.NDArray[np.uint8]:
    """Return the file's bytes as a read-only array that is paged in when touched."""
    descriptor, size = open_sized(path)
    try:
        if size == 0:
            raise DamagedFileError(path, "it is empty")
        # The array owns the mapping, which is closed with the last view of the array.
        return np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ), dtype=np.uint8)
    except OSError as error:
        raise DamagedFileError(path, f"it cannot be mapped ({error.strerror})") from None
    finally:
        os.close(descriptor)


def crc32_of(raw: npt.NDArray[np.uint8]) -> int:
    """Return the checksum of mapped bytes; memory does not grow with them."""
    if raw.size <= _WINDOW:
        return isal_zlib.crc32(raw)
    checksum = 0
    for first in range(0, raw.size, _WINDOW):
        window = raw[first : first + _WINDOW]
        checksum = isal_zlib.crc32(window, checksum)
        release_pages(window)
    return checksum
