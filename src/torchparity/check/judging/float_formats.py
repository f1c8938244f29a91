"""Floating-point formats by torch's name of the dtype: digits, range, and the spacing of numbers at a magnitude."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from torchparity.tensors import DTYPES

Floats = npt.NDArray[np.float64]
_PART_OF_COMPLEX = {
    "torch.complex32": "torch.float16",
    "torch.bcomplex32": "torch.bfloat16",
    "torch.complex64": "torch.float32",
    "torch.complex128": "torch.float64",
}
# The exponent of float64: reading its bits is ten times faster than frexp.
_EXPONENT_AT, _EXPONENT_BIAS, _EXPONENT = 52, 1023, 0x7FF << 52
_WITHOUT_NUMBERS = frozenset({"torch.float4_e2m1fn_x2"})


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating-point format; a complex dtype has the format of its parts."""

    dtype: str  # of one real number
    fraction_bits: int
    lowest_exponent: int  # the smallest normal number is 2 to this power
    largest: float

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number."""
        return float(2.0**-self.fraction_bits)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with all its digits."""
        return float(2.0**self.lowest_exponent)

    @property
    def is_half(self) -> bool:
        """Tell whether the format has at most the digits of float16."""
        return self.fraction_bits <= 10

    def exponents(self, magnitudes: Floats) -> npt.NDArray[np.int64]:
        """Return the power of two at or below each magnitude, not below that of the smallest normal number."""
        powers = (magnitudes.view(np.int64) >> _EXPONENT_AT) - _EXPONENT_BIAS
        bounded: npt.NDArray[np.int64] = np.maximum(powers, self.lowest_exponent)
        return bounded

    def spacing(self, magnitudes: Floats) -> Floats:
        """Return one ULP at each magnitude: the distance of neighbouring numbers of this format there."""
        powers = (magnitudes.view(np.int64) & _EXPONENT).view(np.float64)
        spaced: Floats = np.maximum(powers, self.smallest_normal) * self.epsilon
        return spaced

    def rounded(self, numbers: Floats) -> Floats:
        """Return the nearest numbers of this format, as float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            return numbers.astype(DTYPES[self.dtype]).astype(np.float64)


@cache
def float_format(dtype: str) -> FloatFormat | None:
    """Return the format of a dtype by torch's name; None for integers, booleans and packed numbers."""
    part = _PART_OF_COMPLEX.get(dtype, dtype)
    kind: np.dtype[Any] | None = DTYPES.get(part)
    if kind is None or part in _WITHOUT_NUMBERS or not part.startswith(("torch.float", "torch.bfloat")):
        return None
    facts: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    return FloatFormat(part, int(facts.nmant), int(facts.minexp), float(facts.max))
