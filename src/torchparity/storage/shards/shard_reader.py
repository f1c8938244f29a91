"""Reading a safetensors shard: header checked against the file, bytes mapped, nothing copied."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from torchparity.errors import DamagedFileError
from torchparity.storage.files.mapped import open_spans
from torchparity.tensors import DTYPES

# Code in the header -> torch's name. What the format lacks is stored as U8.
CODES = {
    "BOOL": "torch.bool",
    "U8": "torch.uint8",
    "I8": "torch.int8",
    "U16": "torch.uint16",
    "I16": "torch.int16",
    "U32": "torch.uint32",
    "I32": "torch.int32",
    "U64": "torch.uint64",
    "I64": "torch.int64",
    "F16": "torch.float16",
    "BF16": "torch.bfloat16",
    "F32": "torch.float32",
    "F64": "torch.float64",
    "C64": "torch.complex64",
    "F8_E4M3": "torch.float8_e4m3fn",
    "F8_E5M2": "torch.float8_e5m2",
    "F8_E8M0": "torch.float8_e8m0fnu",
    "F8_E4M3FNUZ": "torch.float8_e4m3fnuz",
    "F8_E5M2FNUZ": "torch.float8_e5m2fnuz",
}
NATIVE = frozenset(CODES.values())


class ShardEntry(msgspec.Struct, frozen=True):
    """The header's entry of one tensor."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class Shard:
    """One file: its header, checked against its size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_spans(path)
        if self._file.size < 8:
            raise DamagedFileError(path, "it is too short to be a safetensors file")
        header_size = int.from_bytes(self._file.span(0, 8).tobytes(), "little")
        self._start = 8 + header_size
        if self._start > self._file.size:
            raise DamagedFileError(path, f"its header claims {header_size} bytes, the file has {self._file.size}")
        self._entries = self._decode_header(self._file.span(8, self._start).tobytes())

    def _decode_header(self, header: bytes) -> dict[str, ShardEntry]:
        try:
            raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
            raw.pop("__metadata__", None)
            return {key: msgspec.json.decode(entry, type=ShardEntry) for key, entry in raw.items()}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedFileError(self.path, f"its header cannot be read ({str(error)[:120]})") from None

    def offset_of(self, key: str) -> int:
        """Return where in the file the bytes of a tensor begin."""
        return self._start + self._entries[key].data_offsets[0]

    def bytes_of(self, key: str) -> npt.NDArray[np.uint8]:
        """Return the bytes of one tensor; read here where they are not mapped."""
        first, last = self.entry_of(key).data_offsets
        return self._file.span(self._start + first, self._start + last)

    def entry_of(self, key: str) -> ShardEntry:
        """Return the entry of one tensor, after checking that its bytes are there and fit its dtype and shape."""
        entry = self._entries.get(key)
        if entry is None:
            raise DamagedFileError(self.path, f"it holds no tensor {key!r}")
        first, last = entry.data_offsets
        if not 0 <= first <= last:
            raise DamagedFileError(self.path, f"tensor {key!r} claims bytes {first} to {last}, which no file has")
        if last > self._file.size - self._start:  # one sentence for all such tensors
            raise DamagedFileError(self.path, f"it ends at byte {self._file.size}, before all tensors that it names")
        if entry.dtype not in CODES:
            raise DamagedFileError(self.path, f"tensor {key!r} has the unknown dtype code {entry.dtype!r}")
        if min(entry.shape, default=0) < 0 or last - first != bytes_needed(CODES[entry.dtype], entry.shape):
            raise DamagedFileError(
                self.path, f"tensor {key!r} of shape {entry.shape} does not fit its {last - first} bytes"
            )
        return entry


def bytes_needed(dtype: str, shape: list[int] | tuple[int, ...]) -> int:
    return math.prod(shape) * DTYPES[dtype].itemsize
