"""Writing safetensors shards: tensors are collected up to the size of a shard, then written at once.

The library does the writing: it takes the tensors where they are and lets other threads
run meanwhile, so shards are written, several at once where there are cores for it, while
the next is collected. A shard has a temporary name until it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from safetensors import SafetensorError, TensorSpec, serialize_file

from torchparity.errors import ParityError, RunWriteError
from torchparity.records import Location
from torchparity.storage.shards.shard_reader import NATIVE, Shard
from torchparity.storage.shards.spare_cores import spare_cores
from torchparity.tensors import HostTensor
from torchparity.whole_file import reason_of, whole_file

SHARD_BYTES = 128 << 20
_BLOCK = 1 << 20
Bytes = npt.NDArray[np.uint8]


class ShardSink:
    """Stores each distinct content once, whatever its name or shape."""

    def __init__(self, folder: Path, shard_bytes: int = SHARD_BYTES, at_once: int | None = None) -> None:
        self._folder, self._shard_bytes = folder, shard_bytes
        self._waiting: dict[str, tuple[HostTensor, Bytes]] = {}
        self._waiting_bytes = 0
        self._writing: list[_ShardThread] = []
        self._at_once = at_once or spare_cores()
        self._shards = 0
        self._keys = 0
        self._places_by_content: dict[tuple[str, int, int], list[Location]] = {}
        self._offsets: dict[str, int] = {}  # of tensors already on disk
        self._written_bytes = 0  # of shards that are whole

    @property
    def stored_bytes(self) -> int:
        return self._written_bytes + self.waiting_bytes

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes + sum(shard.value_bytes for shard in self._writing)

    def put(self, name: str, tensor: HostTensor, *, crc32: int | None = None) -> tuple[str, Location | None]:
        raw = tensor.raw()
        crc = isal_zlib.crc32(raw) if crc32 is None else crc32
        alike = self._places_by_content.setdefault((tensor.dtype, raw.size, crc), [])
        # A CRC-32 can coincide by chance, so only equal bytes count as the same tensor.
        place = next((place for place in alike if self._holds(place, raw)), None)
        if place is None:
            if self._waiting and self._waiting_bytes + raw.size > self._shard_bytes:
                self._write_shard()
            place = Location(self._shard_name(), str(self._keys), f"{crc:08x}")
            self._keys += 1
            self._waiting[place.key] = (tensor, raw)
            self._waiting_bytes += raw.size
            alike.append(place)
        return f"{name}.safetensors", place

    def close(self) -> None:
        if self._waiting:
            self._write_shard()
        while self._writing:
            self._wait_for_shard()

    def abandon(self) -> None:
        while self._writing:
            with suppress(ParityError):  # the failure that led here
                self._wait_for_shard()
        self._waiting.clear()

    def _shard_name(self) -> str:
        return f"data-{self._shards:05}.safetensors"

    def _write_shard(self) -> None:
        """Hand the waiting tensors over; few shards are being written at once, so memory stays bounded."""
        if len(self._writing) == self._at_once:
            self._wait_for_shard()
        tensors, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        self._writing.append(_ShardThread(self._folder / self._shard_name(), tensors))
        self._shards += 1

    def _wait_for_shard(self) -> None:
        writing = self._writing.pop(0)
        writing.finish()
        self._offsets |= writing.offsets
        self._written_bytes += writing.file_bytes

    def _holds(self, place: Location, raw: Bytes) -> bool:
        held = self._waiting.get(place.key)
        for writing in self._writing:
            held = held or writing.tensors.get(place.key)
        blocks = _blocks(held[1]) if held else self._stored_blocks(place, raw.size)
        return all(_same(mine, theirs) for mine, theirs in zip(_blocks(raw), blocks, strict=True))

    def _stored_blocks(self, place: Location, size: int) -> Iterator[Bytes]:
        """Yield the bytes of a stored tensor; read, not mapped, so that memory stays small."""
        with open(self._folder / place.file, "rb", buffering=0) as file:
            file.seek(self._offsets[place.key])
            for start in range(0, size, _BLOCK):
                yield np.frombuffer(file.read(min(_BLOCK, size - start)), np.uint8)


class _ShardThread:
    """Writes one shard beside the caller, or at once where no thread can be started any more."""

    def __init__(self, path: Path, tensors: dict[str, tuple[HostTensor, Bytes]]) -> None:
        self._path, self.tensors = path, tensors
        self.value_bytes = sum(raw.size for _, raw in tensors.values())
        self.offsets: dict[str, int] = {}
        self.file_bytes = 0
        self._error: ParityError | None = None
        self._thread: Thread | None = Thread(target=self._run, name="torchparity-shard")
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down
            self._thread = None
            self._run()

    def _run(self) -> None:
        try:
            self.offsets = _write(self._path, self.tensors)
            self.file_bytes = self._path.stat().st_size
        except OSError as error:  # the shard was removed as soon as it was there
            self._error = RunWriteError(self._path, reason_of(error))
        except ParityError as error:
            self._error = error

    def finish(self) -> None:
        """Wait until the shard is on disk; raise what went wrong."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error


def _write(path: Path, tensors: dict[str, tuple[HostTensor, Bytes]]) -> dict[str, int]:
    """Write one shard; return where in it the bytes of each tensor begin."""
    with whole_file(path, make_folder=False) as temporary:
        try:
            serialize_file({key: _spec(tensor, raw) for key, (tensor, raw) in tensors.items()}, temporary)
        except SafetensorError as error:  # how the library reports a full disk
            raise OSError(str(error).removeprefix("Error while serializing: ")) from error
        # The library makes it private; whoever may read the folder may read its shards.
        temporary.chmod(path.parent.stat().st_mode & 0o666)
    shard = Shard(path)
    return {key: shard.offset_of(key) for key in tensors}


def _spec(tensor: HostTensor, raw: Bytes) -> TensorSpec:
    native = tensor.dtype in NATIVE
    return TensorSpec(
        dtype=tensor.dtype.removeprefix("torch.") if native else "uint8",
        shape=tensor.shape if native else raw.shape,
        data_ptr=raw.ctypes.data,
        data_len=raw.size,
    )


def _blocks(raw: Bytes) -> Iterator[Bytes]:
    return (raw[start : start + _BLOCK] for start in range(0, raw.size, _BLOCK))


def _same(left: Bytes, right: Bytes) -> bool:
    if left.size != right.size:
        return False
    whole = left.size & ~7
    words = np.array_equal(left[:whole].view(np.uint64), right[:whole].view(np.uint64))
    return words and np.array_equal(left[whole:], right[whole:])
