"""Compares two items by their statistics: max, min, mean and norm."""

from __future__ import annotations

import math
from typing import Any

from torchparity.comparing.measuring.deviation import deviation_of_statistics, without_comparison
from torchparity.comparing.measuring.item_comparison import (
    ItemComparison,
    NotCompared,
    Number,
    Reason,
    StatisticsDifference,
)
from torchparity.comparing.measuring.numbers import are_floats, is_number
from torchparity.comparing.pairing.items import ItemPair, Values
from torchparity.records import Leaf, TensorLeaf

_NO_PARTNER = NotCompared(Reason.NO_PARTNER)
_NO_DIFFERENCE = StatisticsDifference((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))


def compare_statistics(pair: ItemPair) -> ItemComparison:
    """Return the differences of the statistics of two items; for a scalar, its value is used for all four."""
    if pair.candidate is None or pair.baseline is None:
        return ItemComparison(pair, _NO_PARTNER, without_comparison(pair))
    left, right = pair.candidate.values(), pair.baseline.values()
    only_floats = are_floats(left, right)
    is_equal = left == right and _are_same_tensors(pair.candidate.leaf, pair.baseline.leaf)
    if only_floats and 0.0 not in right:  # nearly every pair
        if is_equal and math.isfinite(sum(right)):  # the difference of inf and inf is nan, in the tables too
            return ItemComparison(pair, _NO_DIFFERENCE, 0.0)
        a, b, c, d = left
        e, f, g, h = right
        absolute = a - e, b - f, c - g, d - h
        relative = abs(absolute[0] / e), abs(absolute[1] / f), abs(absolute[2] / g), abs(absolute[3] / h)
        difference = StatisticsDifference(absolute, relative)
    else:
        difference = _difference(left, right)
    if is_equal and right[0] is not None:
        return ItemComparison(pair, difference, 0.0)
    return ItemComparison(pair, difference, deviation_of_statistics(pair, left, right, only_floats=only_floats))


def _are_same_tensors(mine: Leaf, other: Leaf) -> bool:
    """Tell whether tensors with equal statistics have one shape and equal sketches."""
    if mine.__class__ is not TensorLeaf or other.__class__ is not TensorLeaf or mine.shape != other.shape:
        return False
    left, right = mine.statistics, other.statistics
    return left is not None and right is not None and left.sketch == right.sketch


def _difference(left: Values, right: Values) -> StatisticsDifference:
    """Return the differences where statistics are missing, zero, whole numbers or truth values."""
    if left[0] is left[1] is left[2] is left[3] and right[0] is right[1] is right[2] is right[3]:  # one number
        absolute, relative = _signed_difference(left[0], right[0]), _relative(left[0], right[0])
        return StatisticsDifference((absolute,) * 4, (relative,) * 4)
    first, second, third, fourth = zip(left, right, strict=True)
    return StatisticsDifference(
        (
            _signed_difference(*first),
            _signed_difference(*second),
            _signed_difference(*third),
            _signed_difference(*fourth),
        ),
        (_relative(*first), _relative(*second), _relative(*third), _relative(*fourth)),
    )


def _signed_difference(left: Any, right: Any) -> Number | None:
    if not is_number(left) or not is_number(right):
        return None
    difference: Number = left - right
    return difference


def _relative(left: Any, right: Any) -> Number | None:
    """Return |left - right| / |right|; infinite where a number stands against 0."""
    difference = _signed_difference(left, right)
    if difference is None or right == 0:
        return None if not difference else math.inf
    return float(abs(difference / right))
