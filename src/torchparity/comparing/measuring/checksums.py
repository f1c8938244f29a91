"""Compares two items by their checksums."""

from __future__ import annotations

import math
from zlib import crc32

from torchparity.comparing.measuring.deviation import has_other_shape, without_comparison
from torchparity.comparing.measuring.item_comparison import ChecksumDifference, ItemComparison, NotCompared, Reason
from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.records import TensorLeaf, ValueLeaf


def compare_checksums(pair: ItemPair) -> ItemComparison:
    """Return the checksums of two items."""
    if pair.candidate is None or pair.baseline is None:
        return ItemComparison(pair, NotCompared(Reason.NO_PARTNER), without_comparison(pair))
    checksums = ChecksumDifference(checksum_of(pair.candidate), checksum_of(pair.baseline))
    has_none = checksums.candidate is checksums.baseline is None
    if has_none and pair.candidate.is_tensor:  # neither tool could make one, of a sparse tensor for instance
        deviation = math.inf if has_other_shape(pair) else None
        return ItemComparison(pair, NotCompared(Reason.NO_CHECKSUM), deviation)
    is_apart = has_other_shape(pair) or not checksums.are_equal
    return ItemComparison(pair, checksums, math.inf if is_apart else 0.0)


def checksum_of(side: Side | None) -> str | None:
    """Return the checksum of an item; a scalar has that of its text, a group of processes shows its ranks."""
    if side is None or side.leaf is None:
        return None
    if isinstance(side.leaf, TensorLeaf):
        return side.leaf.checksum or None
    if not isinstance(side.leaf, ValueLeaf):
        return str(list(side.leaf.ranks))
    return f"{crc32(str(side.leaf.value).encode()):08x}"
