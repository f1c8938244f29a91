"""Findings about values that were saved by hand: tensors, numbers and texts, which come from no call of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, are_tensors
from torchparity.comparing.judging.search.arguments import are_different, text_of_side
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.other_sources import text_of
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.comparing.pairing.items import Side
from torchparity.records import ValueLeaf


def saved_tensor_finding(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return a saved tensor that differs although whoever made it agrees, or that nobody made."""
    for entry in record.returned:
        if not entry.deviation or entry.deviation <= tolerance(entry.pair):
            continue
        origins = context.flow.origins(entry)
        makers = [maker for origin in origins if (maker := context.maker(origin)) is not None]
        if not any(maker.deviation for maker in makers):
            return context.finding(Kind.UNRECORDED, record, entry, sources=list(map(text_of, origins)))
    return None


def saved_value_finding(
    context: PartContext, record: JudgedRecord, rounding: float, *, is_equal_so_far: bool
) -> Finding | None:
    """Return a saved value that differs and is no tensor in both runs.

    Nobody knows what it was computed from. Where records before it differ, a float may differ by `rounding`,
    relatively, and anything else may be a consequence.
    """
    for entry, mine, other in _by_place(record):
        if not is_equal_so_far and not (_is_float(mine) and _is_float(other)):
            continue
        if _differ(mine, other, rounding):
            values = text_of_side(mine), text_of_side(other)
            return context.finding(Kind.UNRECORDED, record, entry, values=values)
    return None


def _by_place(record: JudgedRecord) -> Iterator[tuple[ItemComparison, Side | None, Side | None]]:
    """Yield what both runs have at each place that is no tensor in both, with an item that stands for it."""
    left = [entry for entry in record.items if entry.candidate is not None and not are_tensors(entry)]
    right = [entry for entry in record.items if entry.candidate is None]
    for entry in left:
        alone = _at(right, record.short_name(entry), record)
        if alone is not None:
            right.remove(alone)
        yield entry, entry.candidate, entry.baseline if alone is None else alone.baseline
    yield from ((entry, None, entry.baseline) for entry in right)


def _at(entries: Sequence[ItemComparison], place: str, record: JudgedRecord) -> ItemComparison | None:
    same = {place, place.replace(record.name, record.baseline_name or record.name)}
    return next((entry for entry in entries if record.short_name(entry) in same), None)


def _differ(mine: Side | None, other: Side | None, rounding: float) -> bool:
    sides = [side for side in (mine, other) if side is not None]
    if len({side.is_tensor for side in sides}) > 1:
        return True
    return are_different(mine.leaf if mine is not None else None, other.leaf if other is not None else None, rounding)


def _is_float(side: Side | None) -> bool:
    return side is not None and isinstance(side.leaf, ValueLeaf) and side.leaf.type == "float"
