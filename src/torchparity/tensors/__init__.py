"""Tensors without torch: the bytes in a NumPy array and the dtype by torch's name.

NumPy has no bfloat16 and no fp8; ml_dtypes supplies them. What neither has (complex numbers of
halves, packed fp4) is kept as raw bytes under its own name, so nothing is lost on the way to disk.
The table has dtypes of older and newer torch; a tensor of any other dtype is recorded without its values.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

_NUMPY: dict[str, npt.DTypeLike] = {
    "torch.bool": np.bool_,
    "torch.uint8": np.uint8,
    "torch.uint16": np.uint16,
    "torch.uint32": np.uint32,
    "torch.uint64": np.uint64,
    "torch.int8": np.int8,
    "torch.int16": np.int16,
    "torch.int32": np.int32,
    "torch.int64": np.int64,
    "torch.float16": np.float16,
    "torch.float32": np.float32,
    "torch.float64": np.float64,
    "torch.complex64": np.complex64,
    "torch.complex128": np.complex128,
    "torch.bfloat16": ml_dtypes.bfloat16,
    "torch.float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "torch.float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "torch.float8_e5m2": ml_dtypes.float8_e5m2,
    "torch.float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "torch.float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    # No number type of NumPy's: pairs of two-byte floats, a byte that holds two fours.
    "torch.complex32": np.dtype([("real", np.float16), ("imag", np.float16)]),
    "torch.bcomplex32": np.dtype([("real", ml_dtypes.bfloat16), ("imag", ml_dtypes.bfloat16)]),
    "torch.float4_e2m1fn_x2": np.dtype("V1"),
}
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in _NUMPY.items()}
PAIRS = frozenset(name for name, kind in DTYPES.items() if kind.names is not None)  # of a real and an imaginary part
_TORCH_NAME = {kind: name for name, kind in DTYPES.items()}


@dataclass(frozen=True, eq=False)
class HostTensor:
    """A tensor in this process's memory or mapped from a file; `array` has one of `DTYPES`."""

    dtype: str
    array: npt.NDArray[Any]

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any]) -> HostTensor:
        """Wrap an array; raise TypeError for a dtype that no tensor has."""
        if array.dtype not in _TORCH_NAME:
            raise TypeError(f"no tensor has the dtype {array.dtype}")
        return cls(_TORCH_NAME[array.dtype], array)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.array.shape

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes."""
        return self.array.nbytes

    def raw(self) -> npt.NDArray[np.uint8]:
        """Return the contiguous bytes, without a copy where the array is contiguous."""
        # ascontiguousarray makes a 0-d array 1-d, which reshape does not mind.
        return np.ascontiguousarray(self.array).reshape(-1).view(np.uint8)

    def numbers(self) -> npt.NDArray[Any]:
        """Return the values as float64, complex128, int or bool: something NumPy can compute with."""
        kind = self.array.dtype
        if self.dtype == "torch.float4_e2m1fn_x2":
            return _unpack_fp4(self.array)
        if kind.kind in "biu":
            return self.array
        with np.errstate(invalid="ignore"):  # a signalling nan is a value like any other
            if self.dtype in PAIRS:
                pair = np.stack([self.array["real"], self.array["imag"]], axis=-1).astype(np.float64)
                return pair.view(np.complex128)[..., 0]  # not real + 1j * imag: 1j * inf has a real part of nan
            return self.array.astype(np.complex128 if kind.kind == "c" else np.float64)

    def preview(self) -> str:
        """Return the values as text, the corners only where there are many."""
        shown = self.array
        if self.dtype not in _PRINTABLE and shown.size <= _MOST_CONVERTED:
            shown = self.numbers()  # NumPy prints bfloat16 and fp8 unaligned, pairs of halves as tuples
        corner = {3: 2}.get(shown.ndim, 3 if shown.ndim < 3 else 1)
        with np.printoptions(precision=6, threshold=200, edgeitems=corner, linewidth=78):
            return np.array2string(shown)


def release_pages(array: npt.NDArray[Any]) -> None:
    """Release the resident pages behind a part of a mapped file, which count as memory of this process.

    The bytes are read from the file again when next touched. Memory of any other origin is left alone.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else base
    if not array.nbytes or not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    if not memoryview(mapped).readonly:  # what was written to a private mapping would be lost
        return
    start = array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)


_PRINTABLE = frozenset(name for name, kind in DTYPES.items() if kind.isbuiltin == 1 and kind.kind != "V")
_MOST_CONVERTED = 1 << 24


def _unpack_fp4(packed: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return both fours of each byte, the low one first, along the last dimension."""
    byte = np.ascontiguousarray(packed).view(np.uint8).reshape(packed.shape)
    pair = np.stack([byte & 0xF, byte >> 4], axis=-1)
    magnitude = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[pair & 7]
    values = np.where(pair & 8, -magnitude, magnitude)
    shape = (*packed.shape[:-1], packed.shape[-1] * 2) if packed.ndim else (2,)
    return np.asarray(values.reshape(shape))
