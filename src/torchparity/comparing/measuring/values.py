"""Compares two items by the values that both runs stored of them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torchparity.comparing.measuring.deviation import (
    deviation_of_statistics,
    deviation_of_values,
    finite_norm,
    without_comparison,
)
from torchparity.comparing.measuring.item_comparison import ItemComparison, NotCompared, Reason
from torchparity.comparing.measuring.numbers import are_floats
from torchparity.comparing.measuring.pair_reader import PairReader
from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.errors import InternalError, ParityError
from torchparity.records import Leaf, PairMetrics, TensorLeaf
from torchparity.storage import RunPart

_WIDE_INTEGERS = ("torch.int64", "torch.uint64")
_LARGEST_EXACT = 1 << 53


class ValueComparer:
    """Compares stored tensors; those that many items share are read once."""

    def __init__(self, candidate: RunPart, baseline: RunPart, pairs: Iterable[ItemPair] = ()) -> None:
        tensors = (leaves for pair in pairs if (leaves := _comparable(pair)) is not None)
        self.reader = PairReader(candidate, baseline, tensors)

    def compare(self, pair: ItemPair) -> ItemComparison:
        """Return the metrics of two items, or why there are none.

        Where one side has no values, or none that can be read, the statistics that both have still tell the deviation.
        """
        mine, other = pair.candidate, pair.baseline
        if mine is None or other is None:
            return ItemComparison(pair, NotCompared(Reason.NO_PARTNER), without_comparison(pair))
        if not mine.has_values or not other.has_values:
            reason = Reason.BASELINE_HAS_NO_VALUES if mine.has_values else Reason.CANDIDATE_HAS_NO_VALUES
            return ItemComparison(pair, NotCompared(reason), _told_by_statistics(pair, mine, other))
        outcome = self._outcome(mine.leaf, other.leaf)
        if isinstance(outcome, PairMetrics):
            deviation = deviation_of_values(other, outcome)
            if not deviation and _exceed_floats(mine, other):
                deviation = self.reader.distance_of_integers(mine.leaf, other.leaf) / (finite_norm(other) or 1.0)
            return ItemComparison(pair, outcome, deviation)
        if outcome.reason is Reason.UNREADABLE:
            return ItemComparison(pair, outcome, _told_by_statistics(pair, mine, other))
        return ItemComparison(pair, outcome, math.inf if outcome.reason is Reason.OTHER_SHAPE else None)

    def _outcome(self, mine: Leaf, other: Leaf) -> PairMetrics | NotCompared:
        if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf):
            raise InternalError("only tensors have values to compare.")
        if mine.shape != other.shape:
            return NotCompared(Reason.OTHER_SHAPE)
        if not mine.numel:
            return NotCompared(Reason.EMPTY)
        try:
            return self.reader.metrics(mine, other)
        except ParityError as error:
            return NotCompared(Reason.UNREADABLE, str(error))


def _told_by_statistics(pair: ItemPair, mine: Side, other: Side) -> float | None:
    left, right = mine.values(), other.values()
    return deviation_of_statistics(pair, left, right, only_floats=are_floats(left, right))


def _exceed_floats(*sides: Side) -> bool:
    """Tell whether both tensors have whole numbers so large that float64, which metrics are in, merges neighbours."""
    values = [value for side in sides for value in side.values()[:2]]
    are_wide = all(isinstance(side.leaf, TensorLeaf) and side.leaf.dtype in _WIDE_INTEGERS for side in sides)
    return are_wide and any(value is None or abs(value) > _LARGEST_EXACT for value in values)


def _comparable(pair: ItemPair) -> tuple[TensorLeaf, TensorLeaf] | None:
    """Return the tensors of a pair whose values can be compared."""
    mine, other = (side.leaf if side is not None else None for side in (pair.candidate, pair.baseline))
    if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf) or mine.shape != other.shape:
        return None
    return (mine, other) if mine.data_name and other.data_name and mine.numel else None
