"""Encoding tensors whose values are all finite: nearly every one, and many in one call."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

from torchparity.records import Statistics

TENSOR = "torch.Tensor"
_encode_lines = msgspec.json.Encoder().encode_lines


class FiniteTensor(msgspec.Struct, gc=False, omit_defaults=True):
    """The entry of a tensor. Fields are in the order of the file; those that are None are left out."""

    type: str
    dtype: str
    shape: tuple[int, ...]
    Max: Any
    Min: Any
    Mean: Any
    Norm: Any
    requires_grad: bool
    md5: str | None = None
    zero: int | None = None
    sketch: bytes | None = None
    origin: int | None = msgspec.field(name="from", default=None)


def finite_tensor(
    dtype: str,
    shape: tuple[int, ...],
    statistics: Statistics,
    requires_grad: bool,
    checksum: str | None,
    origin: int | None = None,
) -> FiniteTensor | None:
    """Return the entry of a tensor of which only these fields are recorded.

    None where a value is nan, infinite or too large to be squared, or where a statistic is missing.
    """
    mean, norm, zeros = statistics.mean, statistics.norm, statistics.zero_count
    is_finite = type(norm) is float and type(mean) is float and isfinite(norm) and isfinite(mean)
    if (
        not is_finite
        or zeros is None
        or statistics.nan_count != 0
        or statistics.inf_count
        or statistics.negative_inf_count
    ):
        return None
    sketch, largest, smallest = statistics.sketch, statistics.max, statistics.min
    zero = None if not zeros and sketch is not None else zeros  # a sketch says that counts left out are 0
    return FiniteTensor(
        TENSOR, dtype, shape, largest, smallest, mean, norm, requires_grad, checksum, zero, sketch, origin
    )


def finite_tensors_json(tensors: Iterable[FiniteTensor]) -> list[msgspec.Raw]:
    """Return entries as JSON."""
    lines = _encode_lines(tensors).replace(b"=", b"")  # the padding of base64, and nothing else
    return list(map(msgspec.Raw, lines.splitlines()))
