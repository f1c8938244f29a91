"""Recognises gradients that are sums of what cancels, where nothing but the gradient that came in is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.numbers import is_number
from torchparity.comparing.measuring.rounding import unit_of
from torchparity.records import PairMetrics, TensorLeaf

# Terms from which an output is taken for a sum. With fewer, an output of nothing but rounding would need inputs that
# cancel exactly by chance.
_FEWEST_TERMS = 4
# Rounding errors of n terms are a random walk of about sqrt(n) units of the largest term. The largest of millions of
# torch's sums in two orders was 6.3 times that; docs/decisions/0017 has the measurement.
_MARGIN = 8.0


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
    return terms >= _FEWEST_TERMS and difference <= _MARGIN * unit_of(leaf.dtype) * scale * math.sqrt(terms)


def _largest_difference(comparison: ItemComparison) -> float | None:
    """Return the largest absolute difference of two elements that is known."""
    if isinstance(comparison.outcome, PairMetrics):
        return None if comparison.mismatched else comparison.outcome.max_abs
    if comparison.statistics is None:
        return None
    differences = [abs(difference) for difference in comparison.statistics.absolute[:2] if difference is not None]
    return max(differences, default=None)
