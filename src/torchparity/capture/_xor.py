"""The checksum of `summary_mode: xor`: one exclusive or over all elements, whatever their order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from torchparity.tensors import HostTensor

_BLOCK = 1 << 20


def xor_checksum(tensor: HostTensor) -> str:
    """Return the exclusive or of all elements, each as 64 bits, in hexadecimal; 0 for an empty tensor.

    An element is widened to float64 or int64 first, a complex one to a pair of float64,
    as `torch.hash_tensor` does. Order does not matter and equal pairs vanish, so it tells
    less than a CRC-32.
    """
    flat = tensor.array.reshape(-1)
    total = np.uint64(0)
    for start in range(0, flat.size, _BLOCK):
        numbers = HostTensor(tensor.dtype, flat[start : start + _BLOCK]).numbers()
        total ^= np.bitwise_xor.reduce(_bits(numbers))
    return f"0x{int(total):016x}"


def _bits(numbers: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    if numbers.dtype.kind in "fc":
        return np.ascontiguousarray(numbers).view(np.uint64)
    return numbers.astype(np.uint64 if numbers.dtype == np.uint64 else np.int64).view(np.uint64)
