"""The directory of a zip file, read from mapped bytes: which entries there are and where.

Only what torch.save writes is accepted: entries stored as they are. A compressed entry
is refused, so there is nothing to inflate and no bomb to go off.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from torchparity.errors import DamagedFileError, UnsafeFileError

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 1 << 16
_MOST_ENTRIES = 1 << 16
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ZipEntry:
    """One stored file: its bytes and the CRC-32 the directory gives for them."""

    data: Bytes
    crc32: int


def entries(content: Bytes, path: Path) -> dict[str, ZipEntry]:
    """Return the stored files of a zip archive by their names."""
    count, position, size = _directory(content, path)
    if count > _MOST_ENTRIES or position + size > content.size:
        raise DamagedFileError(path, "its zip directory points outside the file")
    directory = content[position : position + size].tobytes()
    found: dict[str, ZipEntry] = {}
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > size:
            raise DamagedFileError(path, "its zip directory breaks off")
        head = _ENTRY.unpack_from(directory, at)
        signature, method, crc, packed, plain, offset = head[0], head[4], head[7], head[8], head[9], head[16]
        name_size, extra_size, comment_size = head[10:13]
        if signature != b"PK\x01\x02":
            raise DamagedFileError(path, "its zip directory is not one")
        name = directory[at + _ENTRY.size : at + _ENTRY.size + name_size].decode("utf-8", errors="replace")
        extra = directory[at + _ENTRY.size + name_size : at + _ENTRY.size + name_size + extra_size]
        plain, packed, offset = _wide(extra, plain, packed, offset)
        if method != 0 or packed != plain:
            raise UnsafeFileError(path, f"its entry {name!r} is compressed, which torch.save never does")
        if name in found:
            raise UnsafeFileError(path, f"its entry {name!r} is there twice, and readers disagree which one counts")
        found[name] = ZipEntry(_stored(content, offset, plain, path, name), crc)
        at += _ENTRY.size + name_size + extra_size + comment_size
    return found


def _directory(content: Bytes, path: Path) -> tuple[int, int, int]:
    """Return the number of entries, and where and how large the directory is."""
    tail_start = max(0, content.size - _LONGEST_COMMENT - _END.size)
    tail = content[tail_start:].tobytes()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        raise DamagedFileError(path, "it is not a zip file, which .pt files are since torch 1.6; it may be cut off")
    end = _END.unpack_from(tail, at)
    count, size, position = end[4], end[5], end[6]
    locator_at = at - _END64_LOCATOR.size
    if locator_at >= 0 and tail[locator_at : locator_at + 4] == b"PK\x06\x07":
        wide_at = _END64_LOCATOR.unpack_from(tail, locator_at)[2]
        if wide_at + _END64.size > content.size:
            raise DamagedFileError(path, "its zip directory points outside the file")
        wide = _END64.unpack_from(content[wide_at : wide_at + _END64.size].tobytes())
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


def _stored(content: Bytes, offset: int, size: int, path: Path, name: str) -> Bytes:
    if offset + _LOCAL.size > content.size:
        raise DamagedFileError(path, f"its entry {name!r} lies outside the file")
    local = _LOCAL.unpack_from(content[offset : offset + _LOCAL.size].tobytes())
    start = offset + _LOCAL.size + local[9] + local[10]
    if local[0] != b"PK\x03\x04" or start + size > content.size:
        raise DamagedFileError(path, f"its entry {name!r} lies outside the file")
    return content[start : start + size]
