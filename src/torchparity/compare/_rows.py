"""A row: one item on one or both sides, what comparing it gave, and what is to be said about it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from torchparity.records import GroupLeaf, Leaf, Record, TensorLeaf, ValueLeaf

Values = tuple[Any, Any, Any, Any]
NOTHING: Final = (None, None, None, None)


class Side(msgspec.Struct, frozen=True, gc=False):
    """An item of one run."""

    name: str
    leaf: Leaf

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.leaf, TensorLeaf)

    def values(self) -> Values:
        """Return max, min, mean and norm; a scalar is all four."""
        leaf = self.leaf
        if isinstance(leaf, TensorLeaf):
            kept = leaf.statistics
            return NOTHING if kept is None else (kept.max, kept.min, kept.mean, kept.norm)
        value = leaf.value if isinstance(leaf, ValueLeaf) else list(leaf.ranks) if isinstance(leaf, GroupLeaf) else None
        return (value, value, value, value)


class Row(msgspec.Struct, gc=False):
    """A pair of items, or one that has no partner.

    `metrics` are the six of real data, `differences` and `relative` the four of statistics;
    a word in place of a number says why there is none.
    """

    record: str
    role: str
    direction: str
    candidate: Side | None
    baseline: Side | None
    is_first: bool = False  # of its record
    is_fuzzy: bool = False
    metrics: tuple[Any, ...] = ()
    differences: tuple[Any, ...] = ()
    relative: tuple[Any, ...] = ()
    mismatched: int = 0
    verdict: str = ""
    messages: list[str] = []
    reasons: list[str] = []
    colour: str | None = None

    @property
    def is_matched(self) -> bool:
        return self.candidate is not None and self.baseline is not None

    @property
    def name(self) -> str:
        """The candidate's name, or the baseline's where the candidate has none."""
        side = self.candidate or self.baseline
        return side.name if side is not None else ""

    @property
    def is_input(self) -> bool:
        return self.role in ("input", "parameters")


def rows_of(candidate: Record | None, baseline: Record | None, *, is_fuzzy: bool = False) -> list[Row]:
    """Return a row for every item of a pair of records, paired by the item's name, in the order of the candidate's."""
    left, right = _items(candidate), _items(baseline)
    record = candidate or baseline
    if record is None:
        return []
    rows: list[Row] = []
    for item, (role, leaf) in left.items():
        mine = Side(candidate.item_name(item), leaf) if candidate is not None else None
        other = None
        if baseline is not None and item in right and _are_comparable(leaf, right[item][1]):
            other = Side(baseline.item_name(item), right.pop(item)[1])
        rows.append(Row(record.name, role, record.direction, mine, other, not rows, is_fuzzy and other is not None))
    for item, (role, leaf) in right.items():
        if baseline is not None:
            side = Side(baseline.item_name(item), leaf)
            rows.append(Row(record.name, role, record.direction, None, side, not rows))
    return rows


def _are_comparable(left: Leaf, right: Leaf) -> bool:
    """Tell whether two leaves are the same argument: not a tensor and a number, nor tensors of other dimensions."""
    if isinstance(left, TensorLeaf) and isinstance(right, TensorLeaf):
        return len(left.shape) == len(right.shape)
    return isinstance(left, TensorLeaf) == isinstance(right, TensorLeaf)


def _items(record: Record | None) -> dict[str, tuple[str, Leaf]]:
    return {} if record is None else {item.name: (item.role, item.leaf) for item in record.items()}
