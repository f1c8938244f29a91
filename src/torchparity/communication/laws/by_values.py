"""A law checked element by element, in float64 and by blocks, so that large tensors need little memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.communication.laws.expectations import Expectation, Piece
from torchparity.communication.laws.findings import Measured
from torchparity.communication.laws.roundings import Precision, precision_of, steps_of
from torchparity.records import TensorLeaf
from torchparity.storage import RunPart
from torchparity.tensors import HostTensor, release_pages

_BLOCK = 1 << 22  # elements of all ranks together
_SMALLEST_BLOCK = 1 << 14
_Array = npt.NDArray[Any]


@dataclass
class _Sums:
    """The squares of what was found, over all blocks; `lost` counts numbers that are not finite and should be."""

    wrong: int = 0
    lost: int = 0
    off: float = 0.0
    size: float = 0.0
    allowed: float = 0.0

    def measured(self, count: int) -> Measured:
        size = math.sqrt(self.size)
        relative = math.sqrt(self.off) / size if size else math.inf if self.off else 0.0
        allowed = math.sqrt(self.allowed) / size if size else 0.0
        relative = math.inf if self.lost else relative
        return Measured("values", bool(self.wrong), relative, allowed, f"{self.wrong} of {count} elements")


def check_values(expected: Expectation, parts: Mapping[int, RunPart]) -> Measured | None:
    """Return how far a received tensor is from what it must be; None where values are not stored."""
    leaves = [expected.received.leaf, *(piece.leaf for row in expected.rows for piece in row)]
    if any(leaf.data_name is None for leaf in leaves):
        return None
    received = _flat(parts[expected.share.rank], expected.received.leaf)
    rows = [[_slice(piece, parts) for piece in row] for row in expected.rows]
    sums, dtype, precision = _Sums(), expected.received.leaf.dtype, precision_of(expected.received.leaf.dtype)
    block = max(_BLOCK // max(len(rows), 1), _SMALLEST_BLOCK)
    for start in range(0, received.array.size, block):
        stop = min(start + block, received.array.size)
        got = HostTensor(dtype, received.array[start:stop]).numbers()
        terms = [_between(row, dtype, start, stop) for row in rows]
        _add_block(sums, got, terms, expected.reduction, precision)
        for array in (received.array[start:stop], *(piece for row in rows for piece in row)):
            release_pages(array)
    return sums.measured(received.array.size)


def _flat(part: RunPart, leaf: TensorLeaf) -> HostTensor:
    values = part.tensor(leaf, verify=False)
    return HostTensor(values.dtype, values.array.reshape(-1))


def _slice(piece: Piece, parts: Mapping[int, RunPart]) -> _Array:
    return _flat(parts[piece.share.rank], piece.leaf).array[piece.start : piece.start + piece.count]


def _between(row: Sequence[_Array], dtype: str, start: int, stop: int) -> _Array:
    """Return the numbers from start to stop of pieces that lie one after the other."""
    found, offset = [], 0
    for piece in row:
        first, last = max(start - offset, 0), min(stop - offset, piece.size)
        if first < last:
            found.append(HostTensor(dtype, piece[first:last]).numbers())
        offset += piece.size
    return found[0] if len(found) == 1 else np.concatenate(found)


def _add_block(sums: _Sums, got: _Array, terms: Sequence[_Array], reduction: str, precision: Precision | None) -> None:
    with np.errstate(all="ignore"):
        exact, allowed = _exact(terms, reduction, precision)
        off = np.abs(_wide(got) - _wide(exact))
        wrong = got != exact if precision is None else _wrong(got, exact, off, allowed, terms, reduction, precision)
        sums.wrong += int(np.count_nonzero(wrong))
        sums.lost += int(np.count_nonzero(wrong & (np.isfinite(got) != np.isfinite(exact))))
        sums.off += _square(np.where(wrong, off, 0.0))
        sums.size += _square(exact)
        sums.allowed += _square(allowed)


def _wrong(
    got: _Array,
    exact: _Array,
    off: _Array,
    allowed: _Array,
    terms: Sequence[_Array],
    reduction: str,
    precision: Precision,
) -> _Array:
    """Return which elements are not what they must be."""
    if not reduction:
        return np.asarray(~((got == exact) | (np.isnan(got) & np.isnan(exact))))
    if reduction in ("max", "min"):  # libraries differ in what they make of a nan
        return np.asarray((got != exact) & ~np.isnan(exact))
    largest = _largest(terms, reduction)
    has_nonfinite = ~np.isfinite(largest)
    may_overflow = largest > precision.largest
    return np.asarray(np.where(has_nonfinite, np.isfinite(got), ~may_overflow & ~(off <= allowed)))


def _exact(terms: Sequence[_Array], reduction: str, precision: Precision | None) -> tuple[_Array, _Array]:
    """Return the exact result, and how far a computed one may be off."""
    result: _Array = np.array(terms[0])
    for term in terms[1:]:
        if reduction in ("sum", "avg"):
            result = result + term
        elif reduction == "product":
            result = result * term
        else:
            result = np.maximum(result, term) if reduction == "max" else np.minimum(result, term)
    if precision is None or reduction in ("", "max", "min"):
        return result, np.zeros(1)
    share = len(terms) if reduction == "avg" else 1
    sizes = np.abs(result) if reduction == "product" else _largest(terms, reduction)
    roundings = steps_of(len(terms) + (reduction == "avg"))
    allowed = roundings * precision.unit * sizes / share + len(terms) * precision.smallest
    return np.asarray(result / share), np.asarray(allowed)


def _largest(terms: Sequence[_Array], reduction: str) -> _Array:
    """Return the largest number that a sum or product may meet on its way, element by element."""
    largest: _Array = np.abs(terms[0])
    for term in terms[1:]:
        size = np.abs(term)
        largest = np.maximum(largest, 1.0) * np.maximum(size, 1.0) if reduction == "product" else largest + size
    return largest


def _wide(numbers: _Array) -> _Array:
    return numbers.astype(np.float64) if numbers.dtype.kind in "biu" else numbers


def _square(numbers: _Array) -> float:
    sizes = np.abs(_wide(numbers))
    return float(np.sum(np.where(np.isfinite(sizes), sizes, 0.0) ** 2))
