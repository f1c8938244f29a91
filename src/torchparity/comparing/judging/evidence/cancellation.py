"""Recognises gradients that are sums of what cancels, where nothing but the gradient that came in is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.judging.figures import FEWEST_TERMS, MARGIN_OF_CANCELLING
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.numbers import is_number
from torchparity.comparing.measuring.rounding import unit_of
from torchparity.records import PairMetrics, TensorLeaf


def is_cancelled(comparison: ItemComparison, inputs: Sequence[ItemComparison]) -> bool:
    """Tell whether a gradient is a sum of so much that cancels that rounding is all there is to see.

    The gradient of a bias before a batch norm, say, is zero but for rounding.
    """
    leaf = comparison.baseline.leaf if comparison.baseline is not None else None
    sources = [entry.baseline for entry in inputs if entry.baseline is not None and entry.baseline.is_tensor]
    difference = _largest_difference(comparison)
    if not isinstance(leaf, TensorLeaf) or not sources or difference is None or comparison.direction == "forward":
        return False
    elements = max(side.leaf.numel for side in sources if isinstance(side.leaf, TensorLeaf))
    terms = elements / max(1, leaf.numel)
    extremes = (value for side in sources for value in side.values()[:2])
    scale = max((abs(value) for value in extremes if is_number(value) and math.isfinite(value)), default=0.0)
    return terms >= FEWEST_TERMS and difference <= MARGIN_OF_CANCELLING * unit_of(leaf.dtype) * scale * math.sqrt(terms)


def _largest_difference(comparison: ItemComparison) -> float | None:
    """Return the largest absolute difference of two elements that is known."""
    if isinstance(comparison.outcome, PairMetrics):
        return None if comparison.mismatched else comparison.outcome.max_abs
    if comparison.statistics is None:
        return None
    differences = [abs(difference) for difference in comparison.statistics.absolute[:2] if difference is not None]
    return max(differences, default=None)
