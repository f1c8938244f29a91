"""Finds sums and products whose two operands stand in the other order in the baseline: their result is the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from torchparity.comparing.pairing.records import RecordPair
from torchparity.naming import forward_of, parse_record
from torchparity.records import Record, Statistics, TensorLeaf
from torchparity.spellings import canonical_operator

_COMMUTATIVE: Final = frozenset({"add", "mul"})
_ENDINGS: Final = tuple(f".{name}." for name in sorted(_COMMUTATIVE))  # as cheap a look as there is at every record
_NUMBERS: Final = ("max", "min", "mean", "norm")
_PLACES: Final = ("input.0", "input.1")
_INPUTS: Final = {"input.0": "input.1", "input.1": "input.0"}
_GRADIENTS: Final = {"output.0": "output.1", "output.1": "output.0"}
_SMALLEST_MOVE: Final = 0.01  # operands that are closer than this may stand as they are
_SHARE_OF_MOVE: Final = 0.1  # of the distance in the same order: no more is left in the other order
Places = Mapping[str, str]
_NOTHING: Final[Places] = {}


class Operands:
    """The calls of a part that take their operands in the other order, and the places of those in the baseline."""

    def __init__(self, pairs: Sequence[RecordPair]) -> None:
        self._swapped = {
            pair.candidate.name
            for pair in pairs
            if pair.candidate is not None and pair.baseline is not None and _are_swapped(pair.candidate, pair.baseline)
        }

    def places(self, record: Record | None) -> Places:
        """Return the baseline's places of those items of a record that stand elsewhere there."""
        if not self._swapped or record is None or forward_of(record.name) not in self._swapped:
            return _NOTHING
        return _INPUTS if record.direction == "forward" else _GRADIENTS


def _are_swapped(candidate: Record, baseline: Record) -> bool:
    if candidate.direction != "forward" or not any(ending in candidate.name for ending in _ENDINGS):
        return False
    mine, other = _operands(candidate), _operands(baseline)
    if mine is None or other is None:
        return False
    as_it_is = max(_distance(mine[0], other[0]), _distance(mine[1], other[1]))
    if as_it_is <= _SMALLEST_MOVE:
        return False
    return max(_distance(mine[0], other[1]), _distance(mine[1], other[0])) < _SHARE_OF_MOVE * min(as_it_is, 1.0)


def _operands(record: Record) -> tuple[TensorLeaf, TensorLeaf] | None:
    """Return the two tensors of a sum or product; None where the call has any other argument."""
    if canonical_operator(parse_record(record.name).operator) not in _COMMUTATIVE:
        return None
    items = [item for item in record.items() if item.role == "input"]
    first, second = (item.leaf for item in items) if len(items) == 2 else (None, None)
    if tuple(item.name for item in items) != _PLACES:
        return None
    return (first, second) if isinstance(first, TensorLeaf) and isinstance(second, TensorLeaf) else None


def _distance(mine: TensorLeaf, other: TensorLeaf) -> float:
    """Return how far two tensors are apart, as their statistics tell; infinite where these tell nothing."""
    if mine.shape != other.shape:
        return math.inf
    if mine.statistics is None or other.statistics is None:
        return 0.0 if mine.checksum is not None and mine.checksum == other.checksum else math.inf
    return _distance_of_statistics(mine.statistics, other.statistics)


def _distance_of_statistics(mine: Statistics, other: Statistics) -> float:
    """Return how far the norms are apart, relatively, or the extremes and means, relative to the largest element."""
    pairs = [(getattr(mine, name), getattr(other, name)) for name in _NUMBERS]
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for pair in pairs for number in pair):
        return math.inf
    largest = max(abs(number) for pair in pairs[:2] for number in pair)
    sizes = [largest, largest, largest, max(map(abs, pairs[-1]))]
    return max(abs(left - right) / size if size else 0.0 for (left, right), size in zip(pairs, sizes, strict=True))
