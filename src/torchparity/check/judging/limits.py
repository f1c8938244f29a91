"""Limits of the standards by dtype, as docs/check-standards.md lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one dtype."""

    relative: float  # absolute threshold: relative error of a normal value
    small: float  # absolute threshold: values below are small
    small_error: float  # absolute threshold: absolute error of a small value
    benchmark_small: float  # benchmark: values below are small
    benchmark_small_error: float  # benchmark: absolute error of a small value
    ulp: float  # ULP: errors above are counted


_FLOAT32 = Limits(1e-6, 1e-6, 1e-9, 2.0**-14, 2.0**-30, 32)
_FLOAT16 = Limits(1e-3, 1e-3, 1e-5, 2.0**-11, 2.0**-16, 1)
_BFLOAT16 = Limits(4e-3, 1e-3, 1e-5, 2.0**-8, 2.0**-16, 1)
_BY_DTYPE = {"torch.float32": _FLOAT32, "torch.float16": _FLOAT16, "torch.bfloat16": _BFLOAT16}


def has_standard(dtype: str) -> bool:
    """Tell whether the standards have limits for the dtype of one real number."""
    return dtype in _BY_DTYPE


def limits_of(dtype: str) -> Limits:
    """Return the limits of a dtype; for one without limits of its own those of float32."""
    return _BY_DTYPE.get(dtype, _FLOAT32)
