"""msprobe's verdict on one item: Yes and No for values, Warning for statistics, Pass and Different for checksums."""

from __future__ import annotations

import math

from torchparity.comparing.measuring.item_comparison import (
    ChecksumDifference,
    ItemComparison,
    NotCompared,
    Number,
    Reason,
    StatisticsDifference,
)
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.measuring.numbers import is_nan, is_nonfinite_on_one_side
from torchparity.comparing.msprobe.columns import ABSENT
from torchparity.comparing.msprobe.metrics import six_metrics
from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.records import TensorLeaf

WARNING = "Warning"
AGAINST = frozenset({"No", "Unmatched", WARNING, "Different"})  # verdicts that the two sides disagree
_COSINE, _LOW_COSINE = 0.99, 0.9
_SMALL_ERROR, _LARGE_ERROR = 0.001, 1.0
_RELATIVE_OF_ONE = 0.01  # of a tensor with one element, which has no cosine
RELATIVE = 0.5  # of statistics


def verdict_of(comparison: ItemComparison, mode: Mode) -> str:
    """Return msprobe's verdict in the words of the mode's table."""
    if isinstance(comparison.outcome, StatisticsDifference):
        return _of_statistics(comparison.pair, comparison.outcome)
    if mode == "values":
        return _of_values(comparison)
    if isinstance(comparison.outcome, ChecksumDifference):
        return "Pass" if comparison.outcome.are_equal else "Different"
    return ABSENT


def _of_values(comparison: ItemComparison) -> str:
    """Return Yes, No, None where nothing can be said, or Unmatched for other shapes."""
    if isinstance(comparison.outcome, NotCompared):
        return "Unmatched" if comparison.outcome.reason is Reason.OTHER_SHAPE else "None"
    cosine, _, max_abs, max_relative, _, _ = six_metrics(comparison)
    if max_abs is None or max_relative is None:  # nan or infinite on one side alone
        return "No"
    if max_abs > _LARGE_ERROR or math.isnan(max_abs):
        return "No"
    if cosine is None:
        return "No" if max_abs > _SMALL_ERROR and max_relative > _RELATIVE_OF_ONE else "Yes"
    if math.isnan(cosine):  # one side is all zero
        return "No" if max_abs > 0 else "Yes"
    return "No" if cosine < _LOW_COSINE or (cosine < _COSINE and max_abs > _SMALL_ERROR) else "Yes"


def _of_statistics(pair: ItemPair, difference: StatisticsDifference) -> str:
    """Return Warning where a printed relative error is above a half, or a statistic is not finite on one side alone."""
    if any(map(_is_above, difference.relative)):
        return WARNING
    has_nan = any(map(is_nan, difference.relative))
    return WARNING if has_nan and is_nonfinite_on_one_side(pair) else ""


def requires_grad_agrees(pair: ItemPair) -> bool:
    """Tell whether both sides need a gradient, or neither; a side that does not say so counts as another."""
    mine, other = pair.candidate, pair.baseline
    if mine is not None and other is not None and mine.leaf.__class__ is other.leaf.__class__ is TensorLeaf:
        return mine.leaf.requires_grad == other.leaf.requires_grad  # nearly every pair
    return _requires_grad(mine) == _requires_grad(other)


def _requires_grad(side: Side | None) -> bool | None:
    leaf = side.leaf if side is not None else None
    return leaf.requires_grad if leaf.__class__ is TensorLeaf else None


def _is_above(error: Number | None) -> bool:
    return error is not None and error > RELATIVE
