"""Pairs the items of two records: inputs, outputs, parameters and gradients, by their names inside the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from torchparity.records import GroupLeaf, Item, Leaf, Record, TensorLeaf, ValueLeaf

Values = tuple[Any, Any, Any, Any]
NO_VALUES: Final = (None, None, None, None)
INPUT_ROLES: Final = ("input", "parameters")
_LARGEST_NUMBER = 1 << 1000  # whole numbers beyond this are text: no float can hold them


class Side(msgspec.Struct, frozen=True, gc=False):
    """An item of one run."""

    name: str
    leaf: Leaf

    @property
    def is_tensor(self) -> bool:
        """True where the item is a tensor, not another argument."""
        return isinstance(self.leaf, TensorLeaf)

    @property
    def has_values(self) -> bool:
        """True where the run stored the tensor itself, not only facts about it."""
        return isinstance(self.leaf, TensorLeaf) and self.leaf.data_name is not None

    def values(self) -> Values:
        """Return max, min, mean and norm; a scalar is all four."""
        leaf = self.leaf
        if isinstance(leaf, TensorLeaf):
            statistics = leaf.statistics
            return NO_VALUES if statistics is None else (
                statistics.max, statistics.min, statistics.mean, statistics.norm
            )  # fmt: skip
        value = leaf.value if isinstance(leaf, ValueLeaf) else list(leaf.ranks) if isinstance(leaf, GroupLeaf) else None
        if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
            value = str(value)
        return (value, value, value, value)


class ItemPair(msgspec.Struct, frozen=True, gc=False):
    """An item of both runs, or of one that has no partner.

    `is_replaced`: the baseline has something else at this item's place, such as nothing for a tensor.
    """

    record: str
    role: str
    direction: str
    candidate: Side | None
    baseline: Side | None
    is_first: bool = False  # of its record
    is_fuzzy: bool = False
    is_replaced: bool = False
    replaces_tensor: bool = False  # of other dimensions, so that the two have nothing to compare

    @property
    def is_matched(self) -> bool:
        """True where both runs have the item."""
        return self.candidate is not None and self.baseline is not None

    @property
    def is_argument(self) -> bool:
        """True where the item is a tensor in neither run."""
        return not any(side is not None and side.is_tensor for side in (self.candidate, self.baseline))

    @property
    def is_input(self) -> bool:
        """True where the record received the item."""
        return self.role in INPUT_ROLES

    @property
    def name(self) -> str:
        """The candidate's name, or the baseline's where the candidate has none."""
        side = self.candidate or self.baseline
        return side.name if side is not None else ""


def item_pairs(
    candidate: Record | None,
    baseline: Record | None,
    *,
    is_fuzzy: bool = False,
    places: Mapping[str, str] = MappingProxyType({}),
) -> list[ItemPair]:
    """Return a pair for every item of two records, by the items' names, in the order of the candidate's.

    `places` has the baseline's names of items that stand elsewhere there.
    """
    record = candidate or baseline
    if record is None:
        return []
    name, direction = record.name, record.direction
    partner_name = baseline.name if baseline is not None else ""
    items, others = candidate.items() if candidate is not None else [], baseline.items() if baseline is not None else []
    is_plain = name == partner_name and not is_fuzzy and not places
    if is_plain and (in_order := _pairs_in_order(record, items, others)) is not None:
        return in_order  # nearly all records
    right = {item.name: item for item in others}
    pairs: list[ItemPair] = []
    for item in items:
        place, leaf, partner = item.name, item.leaf, None
        there = places.get(place, place)
        other = right.get(there)
        if other is not None and _are_comparable(leaf, other.leaf):
            del right[there]
            partner = Side(f"{partner_name}.{there}" if there else partner_name, other.leaf)
        mine = Side(f"{name}.{place}" if place else name, leaf)
        is_replaced = other is not None and partner is None
        is_partner_fuzzy = is_fuzzy and partner is not None
        replaces_tensor = is_replaced and isinstance(leaf, TensorLeaf) and isinstance(right[there].leaf, TensorLeaf)
        pairs.append(
            ItemPair(
                name, item.role, direction, mine, partner, not pairs, is_partner_fuzzy, is_replaced, replaces_tensor
            )
        )
    for place, item in right.items():
        side = Side(f"{partner_name}.{place}" if place else partner_name, item.leaf)
        pairs.append(ItemPair(name, item.role, direction, None, side, not pairs))
    return pairs


def _pairs_in_order(record: Record, items: Sequence[Item], others: Sequence[Item]) -> list[ItemPair] | None:
    """Return the pairs of two records of one name; None where their items are not the same in the same order."""
    if len(items) != len(others):
        return None
    name, direction, pairs = record.name, record.direction, list[ItemPair]()
    for item, other in zip(items, others, strict=True):
        place, mine, theirs = item.name, item.leaf, other.leaf
        if place != other.name or not _are_comparable(mine, theirs):
            return None
        whole = f"{name}.{place}" if place else name
        pairs.append(ItemPair(name, item.role, direction, Side(whole, mine), Side(whole, theirs), not pairs))
    return pairs


def _are_comparable(left: Leaf, right: Leaf) -> bool:
    """Tell whether two leaves are the same argument: not a tensor and a number, nor tensors of other dimensions."""
    if left.__class__ is right.__class__ is TensorLeaf:
        return len(left.shape) == len(right.shape)
    return isinstance(left, TensorLeaf) == isinstance(right, TensorLeaf)
