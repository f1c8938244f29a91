"""A tensor as it lies in a file, with the checksum that its bytes should have."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from torchparity.errors import DamagedFileError
from torchparity.storage._mapped import crc32_of
from torchparity.tensors import HostTensor


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A mapped tensor whose bytes nobody has read yet.

    Tensors of one folder with the same `content` hold the same values, as far as layout and checksum tell; it is
    None where nothing tells. `crc32` is None where none was stored.
    """

    tensor: HostTensor
    raw: npt.NDArray[np.uint8]
    content: Hashable
    crc32: int | None
    path: Path
    changed: str  # the sentence for bytes that have another checksum

    @property
    def is_whole(self) -> bool:
        """Tell whether the stored bytes are those of the tensor, in order and nothing else."""
        array = self.tensor.array
        is_all = array.flags.c_contiguous and array.nbytes == self.raw.nbytes
        return bool(is_all and array.ctypes.data == self.raw.ctypes.data)

    def verify(self) -> None:
        """Read the bytes; raise `DamagedFileError` if they are not those that were written."""
        if self.crc32 is not None:
            self.check(crc32_of(self.raw))

    def check(self, crc32: int) -> None:
        """Raise `DamagedFileError` if the bytes, whose CRC-32 this is, are not those that were written."""
        if self.crc32 not in (None, crc32):
            raise DamagedFileError(self.path, self.changed)
