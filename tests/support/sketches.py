"""The sketch of a tensor as docs/format.md defines it: element by element, in whole numbers where it can."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_FORMAT = Path(__file__).parents[2] / "docs" / "format.md"


@cache
def places() -> bytes:
    """Return the bytes of the places from the page that defines them."""
    lines = re.findall(r"^    ([0-9a-f]{32})$", _FORMAT.read_text(), re.MULTILINE)
    assert len(lines) == 8
    return bytes.fromhex("".join(lines))


@cache
def group_byte(group: int) -> int:
    word = (group + 0xEAD405BA) % 2**32
    word ^= word >> 16
    word = word * 0x85EBCA6B % 2**32
    word ^= word >> 13
    word = word * 0xC2B2AE35 % 2**32
    return (word ^ word >> 16) & 0xFF


def signs(index: int) -> list[int]:
    """Return the sign of an element in each of the 8 sums."""
    byte = places()[index % 128] ^ group_byte(index // 128)
    return [-1 if byte >> number & 1 else 1 for number in range(8)]


def sums_by_definition(values: Any) -> npt.NDArray[np.float64]:
    """Return the 8 sums of the finite elements in row-major order."""
    flat = np.ascontiguousarray(values).reshape(-1).astype(np.float64)
    finite = np.where(np.isfinite(flat), flat, 0)
    table = np.array([signs(index) for index in range(flat.size)]).reshape(-1, 8)
    return np.asarray(finite @ table)


def sums_of(sketch: bytes | None) -> npt.NDArray[np.float64]:
    """Return the sums of a sketch of either width."""
    assert sketch is not None
    return np.frombuffer(sketch, "<f4" if len(sketch) == 32 else "<f8").astype(np.float64)
