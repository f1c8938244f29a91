"""Reading tensors out of a folder of safetensors shards, each mapped once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from torchparity.errors import DamagedFileError
from torchparity.records import Location, TensorLeaf
from torchparity.storage.files.stored_tensor import MappedTensor, StoredTensor
from torchparity.storage.files.untrusted import inside
from torchparity.storage.files.urls import UrlPath
from torchparity.storage.shards.shard_reader import CODES, NATIVE, Shard, bytes_needed
from torchparity.tensors import DTYPES, HostTensor


class ShardSource:
    """Reads tensors out of a folder of shards, each mapped once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shards: dict[str, Shard] = {}
        self._verified: set[Location] = set()  # many items share one stored tensor

    def read(self, leaf: TensorLeaf, *, verify: bool) -> HostTensor:
        stored = self.stored(leaf)
        if verify and leaf.stored_in is not None and leaf.stored_in not in self._verified:
            stored.verified()
            self._verified.add(leaf.stored_in)
        return stored.map().tensor

    def stored(self, leaf: TensorLeaf) -> StoredTensor:
        where = leaf.stored_in
        if where is None:
            raise DamagedFileError(self._folder, f"tensor {leaf.data_name!r} is not in a shard")
        shard = self._shards.get(where.file)
        if shard is None:
            shard = self._shards[where.file] = Shard(inside(self._folder, where.file, "dump.json"))
        entry = shard.entry_of(where.key)
        size = entry.data_offsets[1] - entry.data_offsets[0]
        self._refuse_mismatch(leaf, size, CODES[entry.dtype], shard.path, where.key)
        changed = f"the bytes of tensor {where.key!r} have changed since they were written"
        content = where, leaf.dtype, leaf.shape
        return StoredTensor(
            content, _number(where.crc32), shard.path, changed, partial(_mapped, shard, where.key, leaf)
        )

    @staticmethod
    def _refuse_mismatch(leaf: TensorLeaf, size: int, stored: str, path: Path, key: str) -> None:
        if leaf.dtype not in DTYPES:
            raise DamagedFileError(path, f"tensor {key!r} is recorded with the unknown dtype {leaf.dtype!r}")
        if stored != leaf.dtype and (leaf.dtype in NATIVE or stored != "torch.uint8"):
            raise DamagedFileError(path, f"tensor {key!r} is stored as {stored} but recorded as {leaf.dtype}")
        if size != bytes_needed(leaf.dtype, leaf.shape):
            wanted = f"{leaf.dtype} {list(leaf.shape)}"
            raise DamagedFileError(path, f"tensor {key!r} has {size} bytes, too many or too few for {wanted}")

    def look(self, leaf: TensorLeaf) -> None:
        stored = self.stored(leaf)
        if not isinstance(self._folder, UrlPath):
            stored.map()  # touches no values


def _mapped(shard: Shard, key: str, leaf: TensorLeaf) -> MappedTensor:
    raw = shard.bytes_of(key)
    try:
        return MappedTensor(HostTensor(leaf.dtype, raw.view(DTYPES[leaf.dtype]).reshape(leaf.shape)), raw)
    except (ValueError, OverflowError):  # an empty tensor with a size that no address has
        raise DamagedFileError(shard.path, f"no tensor has the shape {list(leaf.shape)} of {key!r}") from None


def _number(crc32: str) -> int:
    """Return a recorded checksum; what is none is a number that no bytes have."""
    try:
        return int(crc32, 16)
    except ValueError:
        return -1
