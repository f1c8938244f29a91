"""Computes how far the two sides of a pair are apart, as one number relative to the baseline."""

from __future__ import annotations

import math
from typing import Any

from torchparity.comparing.measuring.numbers import is_nonfinite_on_one_side, is_number
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.comparing.measuring.sketch import sketch_distance
from torchparity.comparing.pairing.items import ItemPair, Side, Values
from torchparity.records import Leaf, PairMetrics, TensorLeaf, ValueLeaf

_ARGUMENTS = frozenset(
    {"bool", "int", "float", "complex", "slice", "torch.Size", "str"}
)  # not devices, which may differ
_SUMS_OF_INTEGERS = 1e-6  # msprobe has their mean and norm in float32, and of one number the norm with its sign
_MAX, _MIN, _MEAN, _NORM = range(4)


def without_comparison(pair: ItemPair) -> float | None:
    """Return the deviation of an item without a partner: infinite where the baseline has something else there."""
    return math.inf if pair.is_replaced else None


def has_other_shape(pair: ItemPair) -> bool:
    """Tell whether the two sides are tensors of different shapes."""
    mine = pair.candidate.leaf if pair.candidate is not None else None
    other = pair.baseline.leaf if pair.baseline is not None else None
    return isinstance(mine, TensorLeaf) and isinstance(other, TensorLeaf) and mine.shape != other.shape


def deviation_of_statistics(pair: ItemPair, mine: Values, other: Values, *, only_floats: bool) -> float | None:
    """Return the deviation of a matched pair whose statistics are `mine` and `other`.

    Max and min count relative to the larger of them, the norm relative to itself, and the mean relative to the norm
    over the root of the count: it is off by no more than the whole. A smallest value near zero is what rounding
    left of it; relative to itself it may be off by anything. Where both have a sketch, the distance of the tensors is
    estimated from it, relative to the norm as the distance of values is; none of the others can be more.
    """
    if pair.candidate is None or pair.baseline is None:
        return without_comparison(pair)
    left, right = pair.candidate.leaf, pair.baseline.leaf
    if left.__class__ is right.__class__ is TensorLeaf:  # nearly every pair
        if left.shape != right.shape:
            return math.inf
    elif isinstance(left, ValueLeaf) and isinstance(right, ValueLeaf):
        return _of_arguments(mine[0], other[0]) if {left.type, right.type} <= _ARGUMENTS else None
    if only_floats:
        largest, smallest, mean, norm = other
        above, below, moved = abs(mine[0] - largest), abs(mine[1] - smallest), abs(mine[2] - mean)
        scale = max(abs(largest), abs(smallest))
        if 0 < scale < math.inf and 0 < norm < math.inf and above + below + mine[3] + moved < math.inf:
            shifted = moved * _root_of_count(pair.baseline) if moved else 0.0
            lengthened, distance = abs(abs(mine[3]) - norm), _sketched(left, right)
            if distance is not None:
                return float(max(distance, above, below, lengthened, shifted) / norm)
            return float(max(max(above, below) / scale, max(lengthened, shifted) / norm))
    return _of_uncommon_statistics(pair, pair.baseline, mine, other)


def least_deviation(mine: Values, baseline: Side) -> float:
    """Return what two tensors are apart at least, as their statistics tell without any estimate; 0 where they do not.

    No norm, no mean and no extreme can move further than the distance of the tensors.
    """
    other = baseline.values()
    if not all(is_number(value) and math.isfinite(value) for value in (*mine, *other)) or not other[_NORM]:
        return 0.0
    shifted = abs(mine[_MEAN] - other[_MEAN]) * _root_of_count(baseline)
    moved = (abs(mine[_MAX] - other[_MAX]), abs(mine[_MIN] - other[_MIN]), abs(abs(mine[_NORM]) - abs(other[_NORM])))
    return float(max(*moved, shifted) / abs(other[_NORM]))


def _sketched(left: Leaf, right: Leaf) -> float | None:
    """Return the distance of two tensors as their sketches tell it, None where one has none."""
    if not isinstance(left, TensorLeaf) or not isinstance(right, TensorLeaf):
        return None
    mine, other = left.statistics, right.statistics
    if mine is None or other is None or mine.sketch is None or other.sketch is None:
        return None
    distance = sketch_distance(mine.sketch, other.sketch)
    return distance if math.isfinite(distance) else None


def _of_uncommon_statistics(pair: ItemPair, baseline: Side, mine: Values, other: Values) -> float | None:
    """Return the deviation where statistics are missing, not finite, zero, whole numbers or truth values."""
    if is_nonfinite_on_one_side(pair):
        return math.inf
    scale = max((abs(value) for value in other[:_MEAN] if _is_scale(value)), default=0.0)
    extremes = [_of_statistic(mine[place], other[place], scale) for place in (_MAX, _MIN)]
    sums: list[float | None] = []
    if _is_scale(other[_NORM]) and is_number(mine[_MEAN]) and is_number(other[_MEAN]):
        unit = abs(other[_NORM]) / _root_of_count(baseline)
        sums.append(_of_statistic(mine[_MEAN], other[_MEAN], unit))
    if scale:
        norm, whole = (abs(norm) if is_number(norm) else norm for norm in (mine[_NORM], other[_NORM]))
        sums.append(_of_statistic(norm, whole, whole if _is_scale(whole) else scale))
    distance = None if pair.candidate is None else _sketched(pair.candidate.leaf, baseline.leaf)
    if not tolerance(pair):
        sums = [0.0 if error is not None and error < _SUMS_OF_INTEGERS else error for error in sums]
    if distance is not None:
        sums.append(distance / (finite_norm(baseline) or scale or 1.0))
    return max((error for error in extremes + sums if error is not None), default=None)


def deviation_of_values(baseline: Side, metrics: PairMetrics) -> float:
    """Return the distance of two tensors relative to the baseline's norm; of 0-d tensors the relative error."""
    if metrics.mismatched:
        return math.inf
    if isinstance(baseline.leaf, TensorLeaf) and not baseline.leaf.shape:
        return metrics.max_relative
    *extremes, _, _ = baseline.values()
    norm = finite_norm(baseline)
    if norm is not None:
        return float(metrics.euclidean / norm)
    # Other tools keep no norm of float64, and that of float16 overflows.
    scale = max((abs(value) for value in extremes if _is_scale(value)), default=1.0)
    return float(metrics.max_abs / scale)


def finite_norm(side: Side) -> float | None:
    """Return the norm of the finite elements: a mask of -inf says nothing about them. None where it is 0 or unknown."""
    norm = side.values()[_NORM]
    if not _is_scale(norm) and isinstance(side.leaf, TensorLeaf) and side.leaf.statistics is not None:
        norm = side.leaf.statistics.finite_norm
    return abs(norm) if _is_scale(norm) else None


def _of_arguments(left: Any, right: Any) -> float:
    if left == right or (left != left and right != right):  # nan is not itself
        return 0.0
    return abs((left - right) / right) if is_number(left) and is_number(right) and right else 1.0


def _root_of_count(side: Side) -> float:
    return math.sqrt(side.leaf.numel or 1) if isinstance(side.leaf, TensorLeaf) else 1.0


def _of_statistic(left: Any, right: Any, scale: float) -> float | None:
    """Return how far one statistic is off; masks have truth values, which are apart or not."""
    if left is None or right is None:
        return None
    if left == right or (left != left and right != right):  # nan is not itself
        return 0.0
    if not is_number(left) or not is_number(right):
        return 1.0
    return float(abs(left - right) / (scale or 1.0))


def _is_scale(value: Any) -> bool:
    return is_number(value) and value != 0 and math.isfinite(value)
