"""Decides how much of two runs was compared: whether anything was, and what only one of them holds."""

from __future__ import annotations

from collections.abc import Iterable

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.records import Leaf, TensorLeaf


def has_compared(comparisons: Iterable[ItemComparison]) -> bool:
    """Tell whether there was anything to compare: a tensor, where there are any; equal arguments alone say little."""
    has_arguments = has_tensors = False
    for comparison in comparisons:
        if _are_tensors(comparison):
            has_tensors = True
            if comparison.deviation is not None:
                return True
        elif comparison.deviation is not None:
            has_arguments = True
    return has_arguments and not has_tensors


def is_held_once(comparison: ItemComparison) -> bool:
    """Tell whether one run has something of a tensor to compare and the other nothing."""
    mine, other = comparison.pair.candidate, comparison.pair.baseline
    if mine is None or other is None or _holds_something(mine.leaf) == _holds_something(other.leaf):
        return False
    return _are_tensors(comparison)


def _are_tensors(comparison: ItemComparison) -> bool:
    sides = comparison.candidate, comparison.baseline
    return all(side is not None and isinstance(side.leaf, TensorLeaf) and side.leaf.numel for side in sides)


def _holds_something(leaf: Leaf) -> bool:
    return isinstance(leaf, TensorLeaf) and (
        leaf.statistics is not None or leaf.checksum is not None or leaf.data_name is not None
    )
