"""Meetings: the records of all ranks that make up one communication, paired by group and order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from torchparity.communication.groups import Group, Groups
from torchparity.communication.operators import Kind
from torchparity.communication.shares import Share, shares_of
from torchparity.naming import RECOMPUTE_MARK
from torchparity.storage import RunPart

_FROM_ROOT = ("broadcast", "scatter")
_TO_ROOT = ("reduce", "gather")


class Meeting(msgspec.Struct, frozen=True):
    """One communication: the share of each rank that recorded it; a send and its receive are one too."""

    kind: Kind
    group: Group
    shares: Mapping[int, Share]
    root: int | None = None

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks of the group that have no record of it."""
        return tuple(rank for rank in self.group.ranks if rank not in self.shares)

    @property
    def name(self) -> str:
        """The record of the lowest rank that has one."""
        return self.shares[min(self.shares)].record.name

    def unseen_by(self, rank: int) -> tuple[int, ...]:
        """Return the ranks whose content reaches a rank, and which have no record of it."""
        return tuple(source for source in self.source_ranks(rank) if source not in self.shares)

    def sources_of(self, rank: int) -> list[Share]:
        """Return the recorded shares whose content reaches a rank."""
        return [self.shares[source] for source in self.source_ranks(rank) if source in self.shares]

    def source_ranks(self, rank: int) -> tuple[int, ...]:
        """Return the ranks whose content reaches a rank, whether they recorded it or not."""
        if self.kind in _FROM_ROOT or self.kind == "send":
            return () if self.root is None or (self.kind == "send" and rank == self.root) else (self.root,)
        if self.kind in _TO_ROOT and rank != self.root:
            return ()
        return self.group.ranks


class Meetings:
    """All communications of one step; `left_out` has those that cannot be paired, by rank and record."""

    def __init__(self, parts: Iterable[RunPart]) -> None:
        self.parts = {part.rank: part for part in parts}
        self.shares: dict[int, list[Share]] = {}
        self.left_out: dict[tuple[int, str], str] = {}
        for rank, part in self.parts.items():
            self.shares[rank], reasons = shares_of(part)
            self.left_out |= {(rank, record): reason for record, reason in reasons.items()}
        self.groups = Groups(list(self.parts.values()), self.shares)
        self.all = [*self._collectives(), *self._transfers()]

    def of(self, rank: int, record: str) -> list[Meeting]:
        """Return the meetings that a record is part of: one, or several of a batch."""
        return self._by_record.get((rank, record), [])

    @cached_property
    def _by_record(self) -> dict[tuple[int, str], list[Meeting]]:
        found: dict[tuple[int, str], list[Meeting]] = defaultdict(list)
        for meeting in self.all:
            for rank, share in meeting.shares.items():
                found[rank, share.record.name].append(meeting)
        return dict(found)

    def _collectives(self) -> Iterator[Meeting]:
        """Yield collectives: the n-th call of a kind within a group is the n-th of every rank."""
        sequences: dict[tuple[Group, str, bool], dict[int, list[Share]]] = defaultdict(lambda: defaultdict(list))
        for rank, of_rank in self.shares.items():
            for share in of_rank:
                if share.kind not in ("send", "receive"):
                    key = (self.groups.of(share), share.kind, share.record.name.endswith(RECOMPUTE_MARK))
                    sequences[key][rank].append(share)
        for (group, _, _), by_rank in sequences.items():
            for number in range(max(map(len, by_rank.values()))):
                shares = {rank: calls[number] for rank, calls in by_rank.items() if number < len(calls)}
                kind = next(iter(shares.values())).kind
                yield Meeting(kind, group, shares, self._root(shares.values(), group))

    def _root(self, shares: Iterable[Share], group: Group) -> int | None:
        for share in shares:
            if share.root is not None:
                return group.rank_of(share.root) if share.is_root_in_group else share.root
        return None

    def _transfers(self) -> Iterator[Meeting]:
        """Yield sends with their receives: the n-th from one rank to another, with the same tag, is the n-th there."""
        sends: dict[tuple[Group, int, int, int], list[Share]] = defaultdict(list)
        receives: dict[tuple[Group, int, int, int], list[Share]] = defaultdict(list)
        from_anybody: list[tuple[Group, Share]] = []
        for rank, of_rank in self.shares.items():
            for share in (share for share in of_rank if share.kind in ("send", "receive")):
                group = self.groups.of(share)
                other = self._root([share], group)
                if other is not None and share.kind == "send":
                    sends[group, rank, other, share.tag].append(share)
                elif other is not None:
                    receives[group, other, rank, share.tag].append(share)
                elif share.kind == "receive":
                    from_anybody.append((group, share))
        self._assign(from_anybody, sends, receives)
        for key in dict.fromkeys((*sends, *receives)):
            yield from _pairs(key, sends.get(key, []), receives.get(key, []))

    def _assign(
        self,
        from_anybody: Sequence[tuple[Group, Share]],
        sends: Mapping[tuple[Group, int, int, int], list[Share]],
        receives: dict[tuple[Group, int, int, int], list[Share]],
    ) -> None:
        """Give receives that name no sender the one rank that has sends left for them."""
        for group, share in from_anybody:
            open_keys = [
                key
                for key, sent in sends.items()
                if (key[0], key[2], key[3]) == (group, share.rank, share.tag) and len(sent) > len(receives.get(key, ()))
            ]
            if len(open_keys) == 1:
                receives[open_keys[0]].append(share)
            else:
                why = "it receives from any rank, and several sent" if open_keys else "nobody recorded its send"
                self.left_out[share.rank, share.record.name] = why


def _pairs(key: tuple[Group, int, int, int], sent: Sequence[Share], received: Sequence[Share]) -> Iterator[Meeting]:
    _, source, target, _ = key
    for number in range(max(len(sent), len(received))):
        shares = {source: sent[number]} if number < len(sent) else {}
        if number < len(received):
            shares[target] = received[number]
        yield Meeting("send", Group((source, target)), shares, source)
