"""Orders findings over ranks: before the first communication first; no collective is blamed for what it was given."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from torchparity.comparing.judging.evidence.operators import communicates
from torchparity.comparing.judging.figures import MARGIN_OF_COMMUNICATION
from torchparity.comparing.judging.search.rank_search import RankSearch
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.naming import is_parameter_gradient
from torchparity.records import TensorLeaf

if TYPE_CHECKING:  # loaded where ranks communicate
    from torchparity.communication.meetings import Meeting, Meetings
    from torchparity.communication.shares import Sent, Share

_AT_FAULT = "every rank sent what it sent in the baseline, so the communication itself is at fault"
_EXPLAINED = (Kind.OPERATOR, Kind.NONFINITE)
_MOST_RANKS = 4


class Placed(msgspec.Struct, frozen=True):
    """A finding with its place in time: after how many communications that may have led there, at which record."""

    finding: Finding
    communications: int
    position: int

    @property
    def order(self) -> tuple[int, int, bool, int, int]:
        """The key that sorts findings of all ranks by time; a collective comes after what its ranks did before it."""
        finding = self.finding
        is_collective = communicates(finding.record)
        return finding.step, self.communications, is_collective, self.position, finding.rank


def ordered(searches: Mapping[int, RankSearch]) -> list[Placed]:
    """Return the findings of all ranks in the order of time."""
    steps = {finding.step for search in searches.values() for _, finding in search.findings}
    communications = {step: StepCommunication(searches, step) for step in steps}
    placed = [
        Placed(finding, communications[finding.step].clock(finding.rank, position), position)
        for search in searches.values()
        for position, finding in search.findings
    ]
    placed.sort(key=lambda entry: entry.order)
    judged = [(entry, communications[entry.finding.step].judged(entry)) for entry in placed]
    return [msgspec.structs.replace(entry, finding=finding) for entry, finding in judged if finding is not None]


def may_be_reduced(entry: Placed, first: Finding, placed: Sequence[Placed]) -> bool:
    """Tell whether a gradient may hold what another rank sent: FSDP reduces gradients before they are accumulated."""
    finding = entry.finding
    if finding.rank == first.rank or finding.step != first.step or not is_parameter_gradient(finding.record):
        return False
    cause = next(
        (each for each in placed if (each.finding.rank, each.finding.record) == (first.rank, first.record)), None
    )
    return cause is not None and cause.communications < entry.communications


class StepCommunication:
    """The communication between the ranks of the candidate in one step."""

    def __init__(self, searches: Mapping[int, RankSearch], step: int) -> None:
        self._contexts = {rank: search.contexts[step] for rank, search in searches.items() if step in search.contexts}
        self._searches, self._step = searches, step

    def clock(self, rank: int, position: int) -> int:
        """Return a rank's clock when it begins a record, given by its position in the order of time."""
        if not self._has_any:
            return 0
        positions, clocks = self._clocks[rank]
        before = bisect_left(positions, position)
        return clocks[before - 1] if before else 0

    def judged(self, placed: Placed) -> Finding | None:
        """Return a finding, with what is known of the communication's fault; None if that only passed it on."""
        finding = placed.finding
        is_about_result = finding.kind is not Kind.ARGUMENT and not finding.item.startswith("input")
        if not communicates(finding.record) or not is_about_result:
            return finding
        if finding.record not in self._contexts[finding.rank].by_name:
            return finding  # a call that only the candidate makes
        met = [
            meeting
            for meeting in self._meetings.of(finding.rank, finding.record)
            if any(each.item == finding.item for each in meeting.shares[finding.rank].received)
        ]
        unseen = sorted({rank for meeting in met for rank in self._unseen(meeting, finding.rank)})
        is_unclear = bool(unseen) or not all(meeting.group.is_complete for meeting in met)
        if any(self._was_given(meeting, finding) for meeting in met):
            return None
        if (is_unclear or not met) and self._is_preceded(placed):
            return None
        if finding.kind not in _EXPLAINED or not met:
            return finding
        return msgspec.structs.replace(finding, explanation=_unseen_said(unseen) if is_unclear else _AT_FAULT)

    @cached_property
    def _has_any(self) -> bool:
        records = (name for context in self._contexts.values() for name in context.part.candidate.records)
        return any(map(communicates, records))

    @cached_property
    def _meetings(self) -> Meetings:
        from torchparity.communication.meetings import Meetings

        return Meetings([context.part.candidate for context in self._contexts.values()])

    @cached_property
    def _clocks(self) -> dict[int, tuple[list[int], list[int]]]:
        """For each rank the positions of its communications, and its clock after each."""
        from torchparity.communication.clocks import Clocks

        clocks, found = Clocks(self._meetings), {}
        for rank, context in self._contexts.items():
            places = {name: place for place, name in enumerate(self._meetings.parts[rank].records)}
            calls = [record for record in context.records if self._meetings.of(rank, record.name)]
            after = [clocks.after(rank, places[record.name]) for record in calls]
            found[rank] = [record.position for record in calls], after
        return found

    def _was_given(self, meeting: Meeting, finding: Finding) -> bool:
        """Tell whether what the ranks sent differs by enough to explain what this one received."""
        received = self._entry(meeting.shares[finding.rank], finding.item)
        sources = [(share, sent) for share in meeting.sources_of(finding.rank) for sent in share.sent]
        sent = [entry for share, each in sources if (entry := self._entry(share, each.item)) is not None]
        differing = [entry for entry in sent if entry.deviation]
        if not differing or received is None:
            return False
        amounts = [_amount(entry) for entry in differing]
        off = _amount(received)
        if off is None or None in amounts or meeting.shares[finding.rank].reduction == "product":
            return True
        return off <= MARGIN_OF_COMMUNICATION * sum(amount for amount in amounts if amount is not None)

    def _entry(self, share: Share, item: str) -> ItemComparison | None:
        context = self._contexts.get(share.rank)
        record = context.by_name.get(share.record.name) if context is not None else None
        items = record.items if record is not None else ()
        return next((entry for entry in items if record is not None and record.short_name(entry) == item), None)

    def _unseen(self, meeting: Meeting, rank: int) -> list[int]:
        """Return the ranks that sent to this one, and of which no comparison tells what."""
        seen = {
            share.rank for share in meeting.sources_of(rank) if all(self._is_compared(share, s) for s in share.sent)
        }
        return [source for source in meeting.source_ranks(rank) if source not in seen]

    def _is_compared(self, share: Share, sent: Sent) -> bool:
        entry = self._entry(share, sent.item)
        return entry is not None and entry.deviation is not None

    def _is_preceded(self, placed: Placed) -> bool:
        """Tell whether another rank has a finding of its own that may have led here."""
        return any(
            finding.step == self._step
            and finding.is_shown
            and not communicates(finding.record)
            and self.clock(rank, position) <= placed.communications
            for rank in self._contexts
            for position, finding in self._searches[rank].findings
            if rank != placed.finding.rank
        )


def _amount(entry: ItemComparison) -> float | None:
    """Return how far an item is off, not relative to anything; None where no number tells."""
    leaf = entry.baseline.leaf if entry.baseline is not None else None
    numbers = leaf.statistics if isinstance(leaf, TensorLeaf) else None
    if numbers is None or numbers.norm is None or entry.deviation is None or not math.isfinite(entry.deviation):
        return None
    norm = float(numbers.norm)
    return entry.deviation * norm if math.isfinite(norm) and norm else None


def _unseen_said(ranks: list[int]) -> str:
    if not ranks:
        return "what other ranks of its group sent is not compared, and may be at fault"
    more = f" and {len(ranks) - _MOST_RANKS} more" if len(ranks) > _MOST_RANKS else ""
    names = ", ".join(map(str, ranks[:_MOST_RANKS])) + more
    return f"what rank{'s' if len(ranks) > 1 else ''} {names} sent is not compared, and may be at fault"
