"""Sketches of docs/format.md as numbers: they add up as the tensors do."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

SUMS = 8
_NARROW = 4 * SUMS  # bytes of float32; a wider sketch has float64


def sums_of(sketch: bytes) -> tuple[float, ...]:
    """Return the sums of a sketch."""
    return struct.unpack(f"<{SUMS}f" if len(sketch) == _NARROW else f"<{SUMS}d", sketch)


def added(sketches: Sequence[bytes]) -> list[float]:
    """Return the sketch of the sum of some tensors."""
    return [math.fsum(numbers) for numbers in zip(*map(sums_of, sketches), strict=True)]


def estimated_norm(sums: Sequence[float]) -> float:
    """Return the estimated L2 norm of a tensor."""
    return math.hypot(*sums) / math.sqrt(len(sums))
