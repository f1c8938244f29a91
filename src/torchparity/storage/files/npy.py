"""Reading .npy files as ptdbg wrote them; the header is matched by a pattern, never evaluated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from torchparity.errors import DamagedFileError
from torchparity.records import TensorLeaf
from torchparity.storage.files.mapped import map_file
from torchparity.storage.files.stored_tensor import MappedTensor, StoredTensor
from torchparity.storage.files.untrusted import inside, look_for
from torchparity.tensors import DTYPES, HostTensor

_MAGIC = b"\x93NUMPY"
# What NumPy writes, read without evaluating it.
_HEADER = re.compile(
    rb"\{'descr': '(?P<descr>[<>|=]?[a-zA-Z]\d{1,2})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>[\d, ]*)\), \}\s*"
)


def read_npy(path: Path) -> npt.NDArray[Any]:
    """Return the array in a .npy file, mapped."""
    content = map_file(path)
    head = content[:12].tobytes()
    wide = head[6:7] in (b"\x02", b"\x03")
    start = 12 if wide else 10
    size = int.from_bytes(head[8:start], "little")
    header = _HEADER.fullmatch(content[start : start + size].tobytes()) if head.startswith(_MAGIC) else None
    if header is None:
        raise DamagedFileError(path, "it is not a .npy file of numbers")
    try:
        shape = tuple(int(part) for part in header["shape"].split(b",") if part.strip())
        order: Literal["C", "F"] = "F" if header["fortran"] == b"True" else "C"
        return np.ndarray(shape, np.dtype(header["descr"].decode()), content.data, start + size, order=order)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise DamagedFileError(path, f"its header does not fit its {content.size} bytes ({str(error)[:80]})") from None


class NpySource:
    """Reads `data_name` from a folder of .npy files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, leaf: TensorLeaf, *, verify: bool) -> HostTensor:
        path = inside(self._folder, leaf.data_name or "", "the .pkl file")
        array = read_npy(path)
        if array.shape != leaf.shape or leaf.dtype not in DTYPES:
            raise DamagedFileError(path, f"it holds {list(array.shape)}, recorded was {leaf.dtype} {list(leaf.shape)}")
        wanted = DTYPES[leaf.dtype]
        # NumPy has no bfloat16, so ptdbg saved those as float32; going back is exact.
        if array.dtype != wanted and not (leaf.dtype == "torch.bfloat16" and array.dtype == np.float32):
            raise DamagedFileError(path, f"it holds {array.dtype}, recorded was {leaf.dtype}")
        return HostTensor(leaf.dtype, array.astype(wanted, copy=False))

    def stored(self, leaf: TensorLeaf) -> StoredTensor:
        tensor = self.read(leaf, verify=False)
        return StoredTensor(None, None, self._folder, "", lambda: MappedTensor(tensor, tensor.raw()))

    def look(self, leaf: TensorLeaf) -> None:
        look_for(inside(self._folder, leaf.data_name or "", "the .pkl file"))
