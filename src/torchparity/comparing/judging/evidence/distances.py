"""Distances of tensors in two runs, in the numbers that a difference of norms is measured in."""

from __future__ import annotations

from collections.abc import Sequence

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.figures import SMALLEST_SHOWN
from torchparity.comparing.measuring.deviation import finite_norm
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.records import TensorLeaf


def distance(entry: ItemComparison) -> float | None:
    """Return the norm of an item's difference, with what statistics cannot show of it; None where nobody knows."""
    if entry.deviation is None or entry.baseline is None:
        return None
    norm = finite_norm(entry.baseline) or 1.0  # beside nothing but zeros a deviation is absolute
    hidden = SMALLEST_SHOWN if entry.metrics is None else 0.0
    return (entry.deviation + hidden) * norm


def largest_distance(entries: Sequence[ItemComparison]) -> float | None:
    """Return the largest of several; None where there are none, or nobody knows one of them."""
    known = [moved for entry in entries if (moved := distance(entry)) is not None]
    return max(known) if known and len(known) == len(entries) else None


def results_like(maker: JudgedRecord, shape: object) -> list[ItemComparison]:
    """Return the results of a record that something of this shape may be: those of the same shape, else all."""
    return [entry for entry in maker.returned if shape_of(entry) == shape] or maker.returned


def shape_of(entry: ItemComparison) -> object:
    """Return the shape that an item has in the baseline."""
    leaf = entry.baseline.leaf if entry.baseline is not None else None
    return leaf.shape if isinstance(leaf, TensorLeaf) else None
