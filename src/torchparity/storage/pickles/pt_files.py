"""Folders of .pt files, one for each tensor: read without torch and without unpickling, written by torch.save."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from torchparity.errors import DamagedFileError
from torchparity.records import Location, TensorLeaf
from torchparity.storage.files.mapped import open_spans
from torchparity.storage.files.stored_tensor import MappedTensor, StoredTensor
from torchparity.storage.files.untrusted import inside, look_for, open_sized, plain_name
from torchparity.storage.files.urls import UrlPath
from torchparity.storage.pickles import zip_directory
from torchparity.storage.pickles.pickled_tensor import PickledTensor, read_pickle
from torchparity.tensors import DTYPES, PAIRS, HostTensor
from torchparity.whole_file import whole_file

_LONGEST_FILE_NAME = 255
_LARGEST_EXPANSION = 256 << 20
_CHANGED = "its bytes have changed since they were written (the CRC-32 differs)"


class _Described(NamedTuple):
    """The description of the one tensor in a .pt file: its layout, and the position of its storage."""

    tensor: PickledTensor
    start: int
    storage: zip_directory.ZipEntry
    has_checksums: bool


def read_pt(path: Path, *, verify: bool = True) -> HostTensor:
    """Return the tensor in a .pt file, mapped; with `verify` the archive's own CRC-32 is checked."""
    stored = _stored(path, _described(path, verify=verify))
    return stored.verified() if verify else stored.map().tensor


def _stored(path: Path | str, described: _Described) -> StoredTensor:
    tensor, start, (_, size, crc32), has_checksums = described

    def mapped() -> MappedTensor:
        data = open_spans(path).span(start, start + size)
        return MappedTensor(HostTensor(tensor.dtype, _view(tensor, data, path)), data)

    if not has_checksums:
        return StoredTensor(None, None, path, _CHANGED, mapped)
    return StoredTensor((tensor, size, crc32), crc32, path, _CHANGED, mapped)


def _described(path: Path | str, *, verify: bool) -> _Described:
    """Read everything but the values; with `verify` the description's CRC-32 is checked."""
    if isinstance(path, UrlPath):
        return _described_by(zip_directory.FetchedEnds(path), verify=verify)
    descriptor, size = open_sized(path)
    try:
        return _described_by(zip_directory.Ends(descriptor, size, path), verify=verify)
    finally:
        os.close(descriptor)


def _described_by(file: zip_directory.Ends, *, verify: bool) -> _Described:
    files, path = zip_directory.entries(file), file.path
    pickles = [name for name in files if name.endswith(b"/data.pkl") and name.count(b"/") == 1]
    if len(pickles) != 1:
        raise DamagedFileError(path, "it is a zip file, but not one that torch.save writes")
    root = pickles[0].removesuffix(b"data.pkl")
    order = root + b"byteorder"
    if order in files and _content(file, files, order) != b"little":
        raise DamagedFileError(path, "it was written on a big-endian machine, which cannot be read here")
    pickled = _content(file, files, pickles[0])
    # torch.serialization.set_crc32_options(False) leaves 0 in place of every checksum.
    has_checksums = any(entry.crc32 for entry in files.values())
    if verify and has_checksums and isal_zlib.crc32(pickled) != files[pickles[0]].crc32:
        raise DamagedFileError(path, "its description has changed since it was written (the CRC-32 differs)")
    tensor = read_pickle(pickled, path)
    name = b"%sdata/%s" % (root, tensor.storage.encode(errors="replace"))
    if name not in files:
        raise DamagedFileError(path, f"it lacks the data of its storage {tensor.storage!r}")
    return _Described(tensor, zip_directory.start_of(file, files[name], name), files[name], has_checksums)


def _content(file: zip_directory.Ends, files: dict[bytes, zip_directory.ZipEntry], name: bytes) -> bytes:
    return file.bytes_at(zip_directory.start_of(file, files[name], name), files[name].size)


def _view(tensor: PickledTensor, storage: npt.NDArray[np.uint8], path: Path | str) -> npt.NDArray[Any]:
    """Return the tensor as a view of its storage."""
    kind = DTYPES[tensor.dtype]
    count = math.prod(tensor.shape)
    available = storage.size // kind.itemsize
    last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride, strict=True))
    if count and last >= available:
        raise DamagedFileError(
            path, f"shape {tensor.shape} with stride {tensor.stride} needs more than its {storage.size} bytes"
        )
    if count > available and count * kind.itemsize > _LARGEST_EXPANSION:
        raise DamagedFileError(
            path, f"shape {tensor.shape} repeats its {storage.size} bytes into far more than a tensor holds"
        )
    strides = [step * kind.itemsize for step in tensor.stride]
    try:
        if count == 0:
            return np.empty(tensor.shape, kind)
        array: npt.NDArray[Any] = np.ndarray(tensor.shape, kind, storage.data, tensor.offset * kind.itemsize, strides)
    except (ValueError, OverflowError, MemoryError) as error:
        raise DamagedFileError(path, f"no tensor has the shape {tensor.shape} ({error})") from None
    return _with_flags(tensor, array, path)


def _with_flags(tensor: PickledTensor, array: npt.NDArray[Any], path: Path | str) -> npt.NDArray[Any]:
    """Apply the lazy conjugate and negative bits that torch saves with a view."""
    is_pair, kind = tensor.dtype in PAIRS, array.dtype.kind
    if tensor.conjugate and not (is_pair or kind == "c"):
        raise DamagedFileError(path, f"it says that {tensor.dtype} values are conjugate")
    if tensor.negative and not (is_pair or tensor.dtype.startswith(("torch.complex", "torch.float", "torch.bfloat"))):
        raise DamagedFileError(path, f"it says that {tensor.dtype} values are negative")
    if is_pair and (tensor.conjugate or tensor.negative):
        array = array.copy()
        for part in ("real", "imag"):
            if tensor.negative != (tensor.conjugate and part == "imag"):
                array[part] = -array[part]
        return array
    array = np.conj(array) if tensor.conjugate else array
    return np.negative(array) if tensor.negative else array


class PtSource:
    """Reads `data_name` from a folder of .pt files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, leaf: TensorLeaf, *, verify: bool) -> HostTensor:
        stored = self.stored(leaf, verify=verify)
        return stored.verified() if verify else stored.map().tensor

    def stored(self, leaf: TensorLeaf, *, verify: bool = True) -> StoredTensor:
        path = self._path(leaf)
        described = _described(path, verify=verify)
        tensor = described.tensor
        if tensor.dtype != leaf.dtype or tensor.shape != leaf.shape:
            held, wanted = f"{tensor.dtype} {list(tensor.shape)}", f"{leaf.dtype} {list(leaf.shape)}"
            raise DamagedFileError(path, f"it holds {held}, recorded was {wanted}")
        return _stored(path, described)

    def look(self, leaf: TensorLeaf) -> None:
        look_for(self._path(leaf))

    def _path(self, leaf: TensorLeaf) -> Path | str:
        if isinstance(self._folder, UrlPath):
            return inside(self._folder, leaf.data_name or "", "dump.json")
        # A text: a run has thousands of files, and making a Path takes longer than opening a file.
        return f"{self._folder}{os.sep}{plain_name(self._folder, leaf.data_name or '', 'dump.json')}"


class PtSink:
    """Writes one .pt file per tensor, through torch.save."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.stored_bytes = self.waiting_bytes = 0

    def put(self, name: str, tensor: HostTensor, *, crc32: int | None = None) -> tuple[str, Location | None]:
        from torchparity.tensors import torch_tensors

        data_name = file_name(name)
        path = self._folder / data_name
        with whole_file(path, make_folder=False) as temporary:
            try:
                torch_tensors.save(tensor, temporary)
            except RuntimeError as error:  # how torch reports a full disk
                raise OSError(str(error).partition("\n")[0]) from error
        self.stored_bytes += path.stat().st_size
        return data_name, None

    def close(self) -> None:
        """Every file is whole already."""

    def abandon(self) -> None:
        """No file is half-written."""


def file_name(item: str) -> str:
    """Return the file name for an item: its own name, shortened by a hash where the file system needs it.

    Characters that a file name cannot hold are replaced, and the hash keeps such names apart.
    """
    safe = "".join("_" if char in '/\\\0:*?"<>|' or ord(char) < 32 else char for char in item)
    if safe == item and len(safe.encode()) + len(".pt") <= _LONGEST_FILE_NAME:
        return f"{safe}.pt"
    digest = hashlib.sha256(item.encode()).hexdigest()[:16]
    room = _LONGEST_FILE_NAME - len(f"~{digest}.pt")
    return f"{safe.encode()[:room].decode(errors='ignore')}~{digest}.pt"
