"""Results as flat arrays of numbers, whatever they came as."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.tensors import PAIRS, HostTensor

Numbers = npt.NDArray[Any]
BLOCK = 1 << 16  # elements: what is computed of them stays in the cache
_PACKED = "torch.float4_e2m1fn_x2"

_DTYPE_OF_SCALAR = {bool: "torch.bool", int: "torch.int64", float: "torch.float64", complex: "torch.complex128"}


class NotComparableError(TypeError):
    """A result whose values cannot be read; the text says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The numbers of a result, flat and as they are stored; `numbers` has them in float64."""

    dtype: str  # by torch's name
    shape: tuple[int, ...]
    stored: Numbers

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.stored.size

    @property
    def kind(self) -> str:
        """The kind of the numbers: float, complex or exact."""
        if self.dtype.startswith(("torch.complex", "torch.bcomplex")):
            return "complex"
        return "float" if self.dtype.startswith(("torch.float", "torch.bfloat")) else "exact"

    def numbers(self, part: slice = slice(None)) -> Numbers:
        """Return some of the numbers as float64 or complex128, integers and booleans as they are."""
        stored = self.stored[part]
        if self.kind == "exact":
            return stored
        with np.errstate(invalid="ignore"):  # a signalling nan is a value like any other
            return stored.astype(np.complex128 if self.kind == "complex" else np.float64, copy=False)


def blocks(device: Values, reference: Values) -> Iterator[tuple[slice, Numbers, Numbers]]:
    """Yield the numbers of two results block by block, so that no more memory is needed for large ones."""
    for start in range(0, device.size, BLOCK):
        part = slice(start, start + BLOCK)
        yield part, device.numbers(part), reference.numbers(part)


def values_of(result: Any) -> Values:
    """Return the numbers of a tensor or a Python scalar; raise `NotComparableError` for anything else."""
    if type(result) in _DTYPE_OF_SCALAR:
        return Values(_DTYPE_OF_SCALAR[type(result)], (), np.array(result).reshape(-1))
    if not hasattr(result, "layout"):
        raise NotComparableError(f"a {type(result).__name__} has no numbers to compare")
    tensor = _from_torch(result)
    # Pairs of halves and packed numbers are no numbers of NumPy's.
    array = tensor.numbers() if tensor.dtype in PAIRS or tensor.dtype == _PACKED else tensor.array
    return Values(tensor.dtype, array.shape, array.reshape(-1))


def _from_torch(tensor: Any) -> HostTensor:
    from torchparity.tensors.torch_tensors import from_torch

    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor._is_zerotensor():  # zeros without memory, as gradients may be
        tensor = tensor.clone()
    try:
        return from_torch(tensor.to_dense() if str(tensor.layout) != "torch.strided" else tensor)
    except (TypeError, RuntimeError, NotImplementedError) as error:
        raise NotComparableError(str(error).splitlines()[0]) from error
