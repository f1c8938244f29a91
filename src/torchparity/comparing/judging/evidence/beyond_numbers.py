"""Differences that no number tells: nan or inf in one run, another shape, nothing where the other run has a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import Side
from torchparity.records import TensorLeaf

_ALONE = ("is a tensor in the candidate alone", "is a tensor in the baseline alone")


def beyond_numbers(comparison: ItemComparison) -> str:
    """Return in a clause why two items are infinitely far apart or have no partner, "" where they are not.

    It goes on after the item's name: "has nan in the candidate alone".
    """
    sides = (comparison.candidate, comparison.baseline)
    if comparison.deviation != math.inf:
        has_tensor = [side is not None and side.is_tensor for side in sides]
        return _ALONE[has_tensor.index(True)] if None in sides and any(has_tensor) else ""
    if has_other_shape(comparison.pair) or comparison.pair.replaces_tensor:
        shapes = shapes_of(comparison)
        return f"has another shape ({shapes[0]} against {shapes[1]})" if shapes else "has another shape"
    if comparison.checksums is not None:
        return "has a different checksum"
    if comparison.pair.is_replaced:
        if comparison.candidate is not None and comparison.candidate.is_tensor:
            return _ALONE[0]
        return "is something else than in the baseline"
    mine, other = set(_nonfinite(comparison.candidate)), set(_nonfinite(comparison.baseline))
    if mine - other:
        return f"has {_listed(mine - other)} in the candidate alone"
    if other - mine:
        return f"has {_listed(other - mine)} in the baseline alone"
    if mine or comparison.mismatched:
        return f"has {_listed(mine or {'nan', 'inf'})} at other places"
    return "is not zero as in the baseline"


def shapes_of(entry: ItemComparison) -> tuple[str, str] | None:
    """Return both shapes as text, the candidate's first."""
    leaves = [side.leaf for side in (entry.candidate, entry.baseline) if side is not None]
    shapes = [str(list(leaf.shape)) for leaf in leaves if isinstance(leaf, TensorLeaf)]
    return (shapes[0], shapes[1]) if len(shapes) == 2 else None


def _nonfinite(side: Side | None) -> Iterator[str]:
    """Yield "nan", "inf" and "-inf", whichever stands in a tensor, as far as its run tells."""
    statistics = side.leaf.statistics if side is not None and isinstance(side.leaf, TensorLeaf) else None
    if statistics is None:
        return
    counts = (statistics.nan_count, statistics.inf_count, statistics.negative_inf_count)
    extremes = [value for value in (statistics.max, statistics.min) if isinstance(value, float)]
    if counts[0] or any(math.isnan(value) for value in extremes):
        yield "nan"
    if counts[1] or math.inf in extremes:
        yield "inf"
    if counts[2] or -math.inf in extremes:
        yield "-inf"


def _listed(words: set[str]) -> str:
    return " and ".join(word for word in ("nan", "inf", "-inf") if word in words)
