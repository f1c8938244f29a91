"""A tensor in a file, together with the checksum that its bytes should have."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from torchparity.errors import DamagedFileError
from torchparity.storage.files.mapped import crc32_of
from torchparity.tensors import HostTensor


class MappedTensor(NamedTuple):
    """A mapped tensor and the stored bytes that it is a view of."""

    tensor: HostTensor
    raw: npt.NDArray[np.uint8]

    @property
    def is_whole(self) -> bool:
        """Tell whether the stored bytes are exactly those of the tensor, in order."""
        array = self.tensor.array
        is_all = array.flags.c_contiguous and array.nbytes == self.raw.nbytes
        return bool(is_all and array.ctypes.data == self.raw.ctypes.data)


class StoredTensor(NamedTuple):
    """A tensor in a file, whose bytes have not been read yet.

    Tensors of one folder with the same `content` hold the same values, as far as layout and checksum tell; it is
    None where nothing tells. `crc32` is None where none was stored, `changed` the sentence for bytes with another.
    """

    content: Hashable
    crc32: int | None
    path: Path | str
    changed: str
    map: Callable[[], MappedTensor]

    def verified(self) -> HostTensor:
        """Read the bytes and return the tensor; raise `DamagedFileError` if they are not those that were written."""
        mapped = self.map()
        self.check_mapped(mapped)
        return mapped.tensor

    def check_mapped(self, mapped: MappedTensor) -> None:
        """Read the mapped bytes; raise `DamagedFileError` if they are not those that were written."""
        if self.crc32 is not None:
            self.check(crc32_of(mapped.raw))

    def check(self, crc32: int) -> None:
        """Raise `DamagedFileError` if the bytes, whose CRC-32 this is, are not those that were written."""
        if self.crc32 not in (None, crc32):
            raise DamagedFileError(self.path, self.changed)
