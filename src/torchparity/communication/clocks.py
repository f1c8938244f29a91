"""Logical clocks: which of two records on different ranks came first, by the communications between them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

from torchparity.communication.meetings import Meeting, Meetings
from torchparity.communication.shares import Share
from torchparity.naming import family_of
from torchparity.records import Record, TensorLeaf

_OF_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")  # every rank hears from every other
_POSTED = frozenset({"Distributed.isend", "Distributed.irecv", "Distributed.batch_isend_irecv"})


class _Event(msgspec.Struct, frozen=True):
    """One record of a rank that communicates, with all its meetings."""

    position: int
    meetings: tuple[Meeting, ...]
    start: int  # the first event of those whose sends are posted together


class Clocks:
    """A clock for each rank, which counts up at each communication to more than that of every rank it hears from.

    Where one record can have caused another on a different rank, its clock is smaller. Lamport, Time, Clocks, and the
    Ordering of Events in a Distributed System, 1978.
    """

    def __init__(self, meetings: Meetings) -> None:
        self._events = {rank: _events(meetings, rank) for rank in meetings.parts}
        self._places = {rank: [event.position for event in events] for rank, events in self._events.items()}
        self._after: dict[int, list[int]] = {rank: [] for rank in self._events}
        self._same_for_all: dict[int, int] = {}
        self._run()

    def before(self, rank: int, position: int) -> int:
        """Return a rank's clock when it begins the record at a position."""
        return self._at(rank, bisect_left(self._places.get(rank, []), position))

    def after(self, rank: int, position: int) -> int:
        """Return a rank's clock when the record at a position is done."""
        return self._at(rank, bisect_right(self._places.get(rank, []), position))

    def end(self, meeting: Meeting) -> int:
        """Return the clock of the last rank when a communication is done."""
        return max(self.after(rank, share.position) for rank, share in meeting.shares.items())

    def _at(self, rank: int, events: int) -> int:
        return self._after[rank][events - 1] if events else 0

    def _run(self) -> None:
        """Let every rank pass its events; one that waits for what nobody sends goes on when all wait."""
        while waiting := [rank for rank, events in self._events.items() if len(self._after[rank]) < len(events)]:
            heard = {rank: self._heard(rank) for rank in waiting}
            going = [rank for rank in waiting if heard[rank] is not None]
            for rank in going or waiting[:1]:
                passed = self._after[rank]
                passed.append(max([*passed[-1:], heard[rank] or 0]) + 1)

    def _heard(self, rank: int) -> int | None:
        """Return the largest clock that reaches a rank at its next event; None while somebody has not sent."""
        event = self._events[rank][len(self._after[rank])]
        clocks = [self._sent(meeting, rank) for meeting in event.meetings]
        known = [clock for clock in clocks if clock is not None]
        return max(known, default=0) if len(known) == len(clocks) else None

    def _sent(self, meeting: Meeting, rank: int) -> int | None:
        """Return the largest clock of those who send to a rank; one that is the same for all ranks is kept."""
        key = id(meeting)
        if key in self._same_for_all:
            return self._same_for_all[key]
        largest = 0
        for share in meeting.sources_of(rank):
            start = self._start(share)
            if len(self._after[share.rank]) < start:
                return None
            largest = max(largest, self._at(share.rank, start))
        if meeting.kind in _OF_ALL:
            self._same_for_all[key] = largest
        return largest

    def _start(self, share: Share) -> int:
        index = bisect_left(self._places[share.rank], share.position)
        return self._events[share.rank][index].start


def _events(meetings: Meetings, rank: int) -> list[_Event]:
    """Return the communications of a rank; sends and receives with no computation between them are posted together."""
    records = list(meetings.parts[rank].records.values())
    positions = sorted({share.position for share in meetings.shares[rank]})
    events: list[_Event] = []
    for position in positions:
        start = len(events)
        if events and all(family_of(records[each].name) in _POSTED for each in (events[-1].position, position)):
            between = records[events[-1].position + 1 : position]
            start = start if any(map(_receives_a_tensor, between)) else events[-1].start
        events.append(_Event(position, tuple(meetings.of(rank, records[position].name)), start))
    return events


def _receives_a_tensor(record: Record) -> bool:
    return any(item.role == "input" and isinstance(item.leaf, TensorLeaf) for item in record.items())
