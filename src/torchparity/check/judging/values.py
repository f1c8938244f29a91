"""Results as flat arrays of numbers, whatever they came as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.tensors import HostTensor

_DTYPE_OF_SCALAR = {bool: "torch.bool", int: "torch.int64", float: "torch.float64", complex: "torch.complex128"}


class NotComparableError(TypeError):
    """A result whose values cannot be read; the text says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The numbers of a result, flat: float64, complex128, integers or booleans."""

    dtype: str  # by torch's name
    shape: tuple[int, ...]
    array: npt.NDArray[Any]

    @property
    def kind(self) -> str:
        """The kind of the numbers: float, complex or exact."""
        return {"f": "float", "c": "complex"}.get(self.array.dtype.kind, "exact")


def values_of(result: Any) -> Values:
    """Return the numbers of a tensor or a Python scalar; raise `NotComparableError` for anything else."""
    if type(result) in _DTYPE_OF_SCALAR:
        return Values(_DTYPE_OF_SCALAR[type(result)], (), np.array(result).reshape(-1))
    if not hasattr(result, "layout"):
        raise NotComparableError(f"a {type(result).__name__} has no numbers to compare")
    tensor = _from_torch(result)
    return Values(tensor.dtype, tensor.shape, tensor.numbers().reshape(-1))


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
