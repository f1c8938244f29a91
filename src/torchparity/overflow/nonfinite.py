"""Records where nan or inf arises on one rank: what they received is finite, what they returned is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from torchparity.communication.meetings import Meeting, Meetings
from torchparity.errors import RecordNameError
from torchparity.naming import parse_record
from torchparity.overwrites import RAW_MEMORY, is_overwritten
from torchparity.records import Item, Leaf, Record, TensorLeaf, ValueLeaf
from torchparity.storage import RunPart

Place = Literal["computation", "communication", "input"]


@dataclass(frozen=True)
class Arising:
    """A record where nan or inf shows up that was not there before, and in which of its items."""

    rank: int
    position: int
    record: Record
    item: Item
    what: str  # "nan" or "inf"
    place: Place
    unrecorded: tuple[int, ...] = ()  # ranks that sent to it, and whose records are not there
    is_group_known: bool = True


def arising_on(rank: int, meetings: Meetings) -> Iterator[Arising]:
    """Yield the records of a rank where nan or inf arises, in the order of time; what others sent is not told here."""
    part, seen = meetings.parts[rank], set[str]()
    for position, record in enumerate(part.records.values()):
        met = meetings.of(rank, record.name)
        received = list(_received(record, part, rank, met))
        returned = [] if _returns_raw_memory(record) else list(_returned(record, part))
        before, after = _kinds(received), _kinds(returned)
        yield from _without_a_maker(rank, position, record, received, seen)
        new = {kind for kind in after if kind not in before and (kind == "nan" or not before)}
        asked = {"inf"} if "inf" in new and _is_asked_for(record) else set()
        for what in sorted(new - asked, reverse=True)[:1]:
            item = next(item for item in returned if what in _kinds([item]))
            if not met:
                yield Arising(rank, position, record, item, what, "computation")
            elif not _is_handed_on(what, rank, met):
                missing = tuple(sorted({each for meeting in met for each in meeting.unseen_by(rank)}))
                is_known = all(meeting.group.is_complete for meeting in met)
                yield Arising(rank, position, record, item, what, "communication", missing, is_known)
        seen |= before | after


def has_statistics(part: RunPart) -> bool:
    """Tell whether anything is known of the values of a part."""
    leaves = (leaf for record in part.records.values() for leaf in record.tensors())
    return any(leaf.statistics is not None and leaf.statistics.max is not None for leaf in leaves)


def kinds_of(leaf: Leaf) -> set[str]:
    """Return "nan" and "inf" where a tensor holds one, as far as its statistics tell."""
    numbers = leaf.statistics if isinstance(leaf, TensorLeaf) else None
    if numbers is None:
        return set()
    ends = [float(each) for each in (numbers.max, numbers.min) if isinstance(each, (int, float))]
    kinds = {"nan"} if numbers.nan_count or any(map(math.isnan, ends)) else set()
    if numbers.inf_count or numbers.negative_inf_count or any(map(math.isinf, ends)):
        kinds.add("inf")
    return kinds


def _kinds(items: Iterable[Item]) -> set[str]:
    return {kind for item in items for kind in kinds_of(item.leaf)}


def _without_a_maker(
    rank: int, position: int, record: Record, received: Iterable[Item], seen: set[str]
) -> Iterator[Arising]:
    """Yield the first input that holds what no record of this rank has shown before."""
    for item in received:
        new = kinds_of(item.leaf) - seen
        if new and not seen:
            yield Arising(rank, position, record, item, max(new), "input")
            return


def _received(record: Record, part: RunPart, rank: int, met: Iterable[Meeting]) -> Iterator[Item]:
    """Yield what a record read; of a communication what this rank sent."""
    meetings = list(met)
    if meetings:
        for meeting in meetings:
            yield from (Item(sent.item, "input", sent.leaf) for sent in meeting.shares[rank].sent)
        return
    for item in record.items():
        is_read = item.role in ("input", "parameters") and not is_overwritten(record.name, item.name)
        if is_read and not _is_uninitialised(item.leaf, part):
            yield item


def _returned(record: Record, part: RunPart) -> Iterator[Item]:
    for item in record.items():
        if item.role in ("output", "parameters_grad", "value") and not _is_uninitialised(item.leaf, part):
            yield item


def _is_uninitialised(leaf: Leaf, part: RunPart) -> bool:
    if not isinstance(leaf, TensorLeaf):
        return False
    return any(origin.kind == "uninitialised" for origin in part.origins_of(leaf))


def _returns_raw_memory(record: Record) -> bool:
    try:
        return parse_record(record.name).canonical.operator.rstrip("_") in RAW_MEMORY
    except RecordNameError:
        return False  # a user's own prefix may be anything


def _is_asked_for(record: Record) -> bool:
    """Tell whether the caller passed an infinity as a number, as one who fills a mask does."""
    numbers = (item.leaf.value for item in record.items() if isinstance(item.leaf, ValueLeaf) and item.role == "input")
    flat = (each for value in numbers for each in (value if isinstance(value, list) else [value]))
    return any(isinstance(number, float) and math.isinf(number) for number in flat)


def _is_handed_on(what: str, rank: int, met: Iterable[Meeting]) -> bool:
    """Tell whether a rank that sent to this one had it already; of inf and -inf a sum makes nan."""
    sent = [each.leaf for meeting in met for share in meeting.sources_of(rank) for each in share.sent]
    kinds = {kind for leaf in sent for kind in kinds_of(leaf)}
    return what in kinds or (what == "nan" and "inf" in kinds)
