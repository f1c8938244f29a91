"""A row: one item on one or both sides, what comparing it gave, and what is to be said about it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from torchparity.records import GroupLeaf, Leaf, Record, TensorLeaf, ValueLeaf

Values = tuple[Any, Any, Any, Any]
NOTHING: Final = (None, None, None, None)
_LARGEST_NUMBER = 1 << 1000  # whole numbers beyond this are text: no float can hold them


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
        if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
            value = str(value)
        return (value, value, value, value)


class Row(msgspec.Struct, gc=False):
    """A pair of items, or one that has no partner.

    `metrics` are the six of real data, `differences` and `relative` the four of statistics;
    a word in place of a number says why there is none. `is_replaced`: the baseline has
    something else at this item's place, such as nothing for a tensor. `is_lost`: its values
    could not be read.
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
    messages: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    colour: str | None = None
    is_replaced: bool = False
    is_lost: bool = False

    def say(self, *sentences: str) -> None:
        self.messages += sentences

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
    record = candidate or baseline
    if record is None:
        return []
    name, direction = record.name, record.direction
    partner_name = baseline.name if baseline is not None else ""
    right = {item.name: item for item in baseline.items()} if baseline is not None else {}
    rows: list[Row] = []
    for item in candidate.items() if candidate is not None else ():
        place, leaf, partner = item.name, item.leaf, None
        other = right.get(place)
        if other is not None and _are_comparable(leaf, other.leaf):
            del right[place]
            partner = Side(f"{partner_name}.{place}" if place else partner_name, other.leaf)
        mine = Side(f"{name}.{place}" if place else name, leaf)
        rows.append(Row(name, item.role, direction, mine, partner, not rows, is_fuzzy and partner is not None))
        rows[-1].is_replaced = other is not None and partner is None
    for place, item in right.items():
        side = Side(f"{partner_name}.{place}" if place else partner_name, item.leaf)
        rows.append(Row(name, item.role, direction, None, side, not rows))
    return rows


def _are_comparable(left: Leaf, right: Leaf) -> bool:
    """Tell whether two leaves are the same argument: not a tensor and a number, nor tensors of other dimensions."""
    if left.__class__ is right.__class__ is TensorLeaf:
        return len(left.shape) == len(right.shape)
    return isinstance(left, TensorLeaf) == isinstance(right, TensorLeaf)
