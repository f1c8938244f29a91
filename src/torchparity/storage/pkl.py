"""ptdbg's format: one .npy file per tensor beside a .pkl of JSON lines; read only."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from torchparity.errors import DamagedFileError, RunWriteError
from torchparity.records import TensorLeaf
from torchparity.storage._files import inside, open_plain
from torchparity.storage._formats import TensorSink, TensorSource
from torchparity.tensors import DTYPES, HostTensor


class NpySource:
    """Reads `data_name` from a folder of .npy files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, leaf: TensorLeaf, *, verify: bool) -> HostTensor:
        path = inside(self._folder, leaf.data_name or "", "the .pkl file")
        os.close(open_plain(path))  # refuses links, pipes and the like
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, SyntaxError, OverflowError, MemoryError, RecursionError) as error:
            raise DamagedFileError(
                path, f"it is not a .npy file of numbers ({str(error).splitlines()[0][:120]})"
            ) from None
        if not isinstance(array, np.ndarray) or array.shape != leaf.shape or leaf.dtype not in DTYPES:
            raise DamagedFileError(path, f"its shape or dtype is not the recorded {list(leaf.shape)} {leaf.dtype}")
        wanted = DTYPES[leaf.dtype]
        # NumPy has no bfloat16, so ptdbg saved those as float32; going back is exact.
        if array.dtype != wanted and not (leaf.dtype == "torch.bfloat16" and array.dtype == np.float32):
            raise DamagedFileError(path, f"it holds {array.dtype}, recorded was {leaf.dtype}")
        return HostTensor(leaf.dtype, array.astype(wanted, copy=False).view(np.ndarray))

    def stored_bytes(self) -> int:
        return sum(file.stat().st_size for file in self._folder.glob("*.npy"))


class NpyFormat:
    """What ptdbg left behind; nobody needs to write it any more."""

    suffix = ".npy"

    def source(self, folder: Path) -> TensorSource:
        return NpySource(folder)

    def sink(self, folder: Path) -> TensorSink:
        raise RunWriteError(folder, "ptdbg's format can only be read; write safetensors or pt")


PLUGIN = NpyFormat()
