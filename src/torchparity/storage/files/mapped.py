"""Bytes of files, memory-mapped or fetched, and their checksums."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from torchparity.errors import DamagedFileError, RunNotFoundError
from torchparity.storage.files.untrusted import open_sized
from torchparity.storage.files.urls import UrlPath
from torchparity.tensors import release_pages

_WINDOW = 64 << 20


def map_file(path: Path | str) -> npt.NDArray[np.uint8]:
    """Return the file's bytes as a read-only array that is paged in when touched; those of a URL are fetched."""
    if isinstance(path, UrlPath):
        return FetchedFile(path).span(0, size_of(path))
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


class MappedFile:
    """A file that is mapped whole."""

    def __init__(self, path: Path | str) -> None:
        self._bytes = map_file(path)
        self.size = self._bytes.size

    def span(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        """Return the bytes from `first` to before `last`."""
        return self._bytes[first:last]


class FetchedFile:
    """A file of an object store, of which nothing is read but what is asked for."""

    def __init__(self, path: UrlPath) -> None:
        self._path, self.size = path, size_of(path)

    def span(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        """Fetch the bytes from `first` to before `last`."""
        content = self._path.fetch(first, last) if last > first else b""
        if len(content) != last - first:
            raise DamagedFileError(str(self._path), f"it has no {last - first} bytes from byte {first} on")
        return np.frombuffer(content, np.uint8)


def open_spans(path: Path | str) -> MappedFile | FetchedFile:
    """Open a file whose bytes are wanted in parts."""
    return FetchedFile(path) if isinstance(path, UrlPath) else MappedFile(path)


def size_of(path: UrlPath) -> int:
    """Return the size of a file of an object store."""
    if not path.is_file():
        raise RunNotFoundError(f"{path} does not exist.")
    size = path.stat().st_size
    if size == 0:
        raise DamagedFileError(str(path), "it is empty")
    return size


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
