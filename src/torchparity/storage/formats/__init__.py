"""Tensor formats, one file each: `x.py` is the format `x` and its `PLUGIN` a `TensorFormat`.

A format says how its files end, whether it can be written, and who reads and writes a folder of
them. A source returns mapped bytes after checking that they are what the record says; it runs
nothing that a file asks for. A sink may keep what it is given until `close`. The files here
import nothing heavy: what reads and writes is imported when it is first asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torchparity import plugins

if TYPE_CHECKING:
    from torchparity.records import Location, TensorLeaf
    from torchparity.storage.files.stored_tensor import StoredTensor
    from torchparity.tensors import HostTensor


class TensorSource(Protocol):
    """Reads the tensors of one folder."""

    def read(self, leaf: TensorLeaf, *, verify: bool) -> HostTensor:
        """Return the tensor that `leaf` describes, mapped where the format allows it.

        With `verify` the stored checksum is compared first. Raises `DamagedFileError`
        for bytes that are not this leaf's, `UnsafeFileError` for what must not be read.
        """

    def stored(self, leaf: TensorLeaf) -> StoredTensor:
        """Return the tensor without reading its values, for a caller that verifies the checksum while it reads them."""

    def look(self, leaf: TensorLeaf) -> None:
        """Raise as `read` does where the file or its entry is missing; reads no values."""


class TensorSink(Protocol):
    """Writes tensors into one folder; used by one thread."""

    @property
    def stored_bytes(self) -> int:
        """Size of the files for all tensors that were put: exact after `close`, before that without file headers."""

    @property
    def waiting_bytes(self) -> int:
        """The share of `stored_bytes` that is not on disk yet."""

    def put(self, name: str, tensor: HostTensor, *, crc32: int | None = None) -> tuple[str, Location | None]:
        """Take a tensor that nobody will change; return its data_name and where it is.

        `crc32` is that of its bytes, where somebody has computed it already.
        """

    def close(self) -> None:
        """Make everything that was put readable."""

    def abandon(self) -> None:
        """Remove what is half-written after a failure; what was complete stays."""


class TensorFormat(Protocol):
    """The contract of `PLUGIN` in each file of this folder.

    `bare_nan` says that records beside such tensors are for tools that want NaN and
    Infinity as such, which strict JSON does not have. A format that is not `is_writable` can only be read.
    """

    suffix: str
    bare_nan: bool
    is_writable: bool

    def source(self, folder: Path) -> TensorSource:
        """Return what reads the tensors of a folder."""

    def prepare_to_write(self) -> None:
        """Raise a `ParityError` where tensors cannot be written in this format, here or at all."""

    def sink(self, folder: Path) -> TensorSink:
        """Return what writes tensors into a folder."""


def writable_formats() -> list[str]:
    """Return the names of the formats that tensors can be written in."""
    formats = {name: load_format(name) for name in plugins.names("storage.formats")}
    return [name for name, tensor_format in formats.items() if tensor_format.is_writable]


def load_format(name: str) -> TensorFormat:
    """Return a format by its name; raise `UnknownPluginError` where there is none."""
    tensor_format: TensorFormat = plugins.load("storage.formats", name)
    return tensor_format
