"""The six metrics of two tensors as msprobe prints them: rounded, and without those it does not calculate."""

from __future__ import annotations

import math
from typing import NamedTuple

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.records import PairMetrics, TensorLeaf

_DIGITS = 12


class SixMetrics(NamedTuple):
    """The metrics in the order of their columns; None where there is no number."""

    cosine: float | None = None
    distance: float | None = None
    max_abs: float | None = None
    max_relative: float | None = None
    within_1e3: float | None = None
    within_5e3: float | None = None


_NONE = SixMetrics()


def six_metrics(comparison: ItemComparison) -> SixMetrics:
    """Return the metrics of a comparison; a cosine is nan where one side is all zero."""
    metrics = comparison.outcome
    if not isinstance(metrics, PairMetrics) or metrics.mismatched:
        return _NONE
    max_abs, max_relative = round(metrics.max_abs, _DIGITS), round(metrics.max_relative, _DIGITS)
    shape = shape_of(comparison)
    if not shape:
        return SixMetrics(max_abs=max_abs, max_relative=max_relative)
    cosine = math.nan if metrics.cosine is None else round(metrics.cosine, _DIGITS)
    within_1e3, within_5e3 = round(metrics.within_1e3, _DIGITS), round(metrics.within_5e3, _DIGITS)
    has_cosine = shape != (1,)
    return SixMetrics(cosine if has_cosine else None, metrics.euclidean, max_abs, max_relative, within_1e3, within_5e3)


def shape_of(comparison: ItemComparison) -> tuple[int, ...]:
    """Return the shape of the candidate's tensor."""
    leaf = comparison.candidate.leaf if comparison.candidate is not None else None
    return tuple(leaf.shape) if isinstance(leaf, TensorLeaf) else ()
