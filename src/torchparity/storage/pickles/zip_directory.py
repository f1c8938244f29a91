"""Reading the directory of a zip file: the names and positions of its entries.

Only what torch.save writes is accepted: entries stored as they are. A compressed entry
is refused, so there is nothing to inflate and no bomb to go off.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from torchparity.errors import DamagedFileError, UnsafeFileError
from torchparity.storage.files.mapped import size_of
from torchparity.storage.files.urls import UrlPath

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6xH4x3L3H8xL")  # signature, method, CRC-32, both sizes, three lengths, place
_LOCAL = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 1 << 16
_MOST_ENTRIES = 1 << 16
_FRONT, _BACK = 4096, 4096  # a .pt file has all but its values there


class ZipEntry(NamedTuple):
    """One stored file: where its local header is, how many bytes follow that, and the CRC-32 the directory gives."""

    offset: int
    size: int
    crc32: int


class Ends:
    """An open file whose first and last bytes are cached; the bytes between are read on demand."""

    def __init__(self, descriptor: int, size: int, path: Path | str) -> None:
        self.descriptor, self.size, self.path = descriptor, size, path
        if size == 0:
            raise DamagedFileError(path, "it is empty")
        self._front = self._read(0, _FRONT)
        self._back_at = max(0, self.size - _BACK)
        self._back = self._front if self._back_at == 0 else self._read(self._back_at, _BACK)

    def bytes_at(self, first: int, size: int) -> bytes:
        """Return `size` bytes from `first` on; fewer at the end of the file."""
        if first + size <= len(self._front):
            return self._front[first : first + size]
        if first >= self._back_at:
            return self._back[first - self._back_at : first - self._back_at + size]
        return self._read(first, size)

    def _read(self, first: int, size: int) -> bytes:
        try:
            return os.pread(self.descriptor, size, first)
        except OSError as error:
            raise DamagedFileError(self.path, f"it cannot be read ({error.strerror})") from None


class FetchedEnds(Ends):
    """The same of a file of an object store."""

    def __init__(self, path: UrlPath) -> None:
        self._url = path
        super().__init__(-1, size_of(path), path)

    def _read(self, first: int, size: int) -> bytes:
        return self._url.fetch(first, min(first + size, self.size))


def entries(file: Ends) -> dict[bytes, ZipEntry]:
    """Return the stored files of a zip archive by their names."""
    path = file.path
    count, position, size = _directory(file)
    if count > _MOST_ENTRIES or position + size > file.size:
        raise DamagedFileError(path, "its zip directory points outside the file")
    directory = file.bytes_at(position, size)
    files: dict[bytes, ZipEntry] = {}
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(directory):
            raise DamagedFileError(path, "its zip directory breaks off")
        signature, method, crc, packed, plain, name_size, extra_size, comment_size, offset = _ENTRY.unpack_from(
            directory, at
        )
        name_end = at + _ENTRY.size + name_size
        extra_end = name_end + extra_size
        if signature != b"PK\x01\x02":
            raise DamagedFileError(path, "its zip directory is not one")
        name = directory[at + _ENTRY.size : name_end]
        if extra_end > name_end:
            plain, packed, offset = _wide(directory[name_end:extra_end], plain, packed, offset)
        if method != 0 or packed != plain:
            raise UnsafeFileError(path, f"its entry {_text(name)} is compressed, which torch.save never does")
        if name in files:
            raise UnsafeFileError(path, f"its entry {_text(name)} is there twice; readers disagree which one counts")
        files[name] = ZipEntry(offset, plain, crc)
        at = extra_end + comment_size
    return files


def start_of(file: Ends, entry: ZipEntry, name: bytes) -> int:
    """Return where the bytes of an entry begin, after checking that the file has them."""
    local = file.bytes_at(entry.offset, _LOCAL.size)
    if len(local) == _LOCAL.size:
        head = _LOCAL.unpack(local)
        start: int = entry.offset + _LOCAL.size + head[9] + head[10]
        if head[0] == b"PK\x03\x04" and start + entry.size <= file.size:
            return start
    raise DamagedFileError(file.path, f"its entry {_text(name)} lies outside the file")


def _text(name: bytes) -> str:
    return repr(name.decode("utf-8", errors="replace"))


def _directory(file: Ends) -> tuple[int, int, int]:
    """Return the number of entries, and where and how large the directory is."""
    path = file.path
    # The format allows a comment at the end, which torch never writes.
    for reach in (_BACK, _LONGEST_COMMENT + _END.size):
        tail = file.bytes_at(max(0, file.size - reach), reach)
        at = tail.rfind(b"PK\x05\x06")
        if at >= _END64_LOCATOR.size:
            break
    if at < 0 or at + _END.size > len(tail):
        raise DamagedFileError(path, "it is not a zip file, which .pt files are since torch 1.6; it may be cut off")
    end = _END.unpack_from(tail, at)
    count, size, position = end[4], end[5], end[6]
    locator_at = at - _END64_LOCATOR.size
    if locator_at >= 0 and tail[locator_at : locator_at + 4] == b"PK\x06\x07":
        wide_at = _END64_LOCATOR.unpack_from(tail, locator_at)[2]
        if wide_at + _END64.size > file.size:
            raise DamagedFileError(path, "its zip directory points outside the file")
        wide = _END64.unpack(file.bytes_at(wide_at, _END64.size))
        if wide[0] != b"PK\x06\x06":
            raise DamagedFileError(path, "its zip directory is not one")
        count, size, position = wide[7], wide[8], wide[9]
    return count, position, size


def _wide(extra: bytes, plain: int, packed: int, offset: int) -> tuple[int, int, int]:
    """Replace 32-bit fields that are full by their 64-bit values in the zip64 extra field."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            values = iter(struct.unpack_from(f"<{min(size, len(extra) - at - 4) // 8}Q", extra, at + 4))
            full = 0xFFFFFFFF
            plain = next(values, plain) if plain == full else plain
            packed = next(values, packed) if packed == full else packed
            offset = next(values, offset) if offset == full else offset
        at += 4 + size
    return plain, packed, offset
