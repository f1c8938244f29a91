"""Expectations: what each tensor that a rank received must be, in terms of what others sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from torchparity.communication.laws.roundings import precision_of
from torchparity.communication.meetings import Meeting
from torchparity.communication.shares import Sent, Share
from torchparity.records import TensorLeaf

_NOTHING = TensorLeaf(dtype="", shape=(0,))
_NOT_RECEIVED = "what it received is not recorded, as of calls that send Python objects"
_BY_PLACE = ("scatter", "reduce_scatter", "all_to_all")  # every rank receives another part
_INTEGERS = ("torch.int", "torch.uint")
_REDUCED = ("sum", "avg", "max", "min", "product")


@dataclass(frozen=True)
class Piece:
    """Consecutive elements of a tensor that a rank sent."""

    share: Share
    leaf: TensorLeaf
    start: int
    count: int

    @property
    def is_whole(self) -> bool:
        """True where it is all of the tensor."""
        return self.start == 0 and self.count == self.leaf.numel


@dataclass(frozen=True)
class Expectation:
    """A received tensor and what it must be: rows reduced by `reduction`, each of pieces one after the other.

    A copy is one row. `reason` says why nobody can tell, where that is so.
    """

    share: Share
    received: Sent
    rows: tuple[tuple[Piece, ...], ...] = ()
    reduction: str = ""
    reason: str = ""

    @property
    def is_plain(self) -> bool:
        """True where every row is one whole tensor."""
        return all(len(row) == 1 and row[0].is_whole for row in self.rows)

    @property
    def is_of_whole_tensors(self) -> bool:
        """True where every piece is a whole tensor."""
        return all(piece.is_whole for row in self.rows for piece in row)


def expectations(meeting: Meeting) -> Iterator[Expectation]:
    """Yield an expectation for every tensor that a rank received; for ranks that expect the same it is made once."""
    known: dict[object, Expectation] = {}
    for rank, share in meeting.shares.items():
        if not meeting.source_ranks(rank):
            continue  # the law leaves open what this rank has afterwards
        if meeting.kind in ("broadcast", "send") and rank == meeting.root:
            continue  # it keeps what it sent
        if not share.received:
            yield Expectation(share, Sent("output", _NOTHING), reason=_NOT_RECEIVED)
        place = rank if meeting.kind in _BY_PLACE else None
        for number, received in enumerate(share.received):
            form = (received.leaf.dtype, received.leaf.numel, len(share.received), share.reduction)
            key = (number, place, meeting.source_ranks(rank), form)
            if key not in known:
                known[key] = _expectation(meeting, share, number, received)
            yield replace(known[key], share=share, received=received)


def _expectation(meeting: Meeting, share: Share, number: int, received: Sent) -> Expectation:
    sources = meeting.source_ranks(share.rank)
    if len(share.received) == len(sources) and meeting.kind in ("all_gather", "gather", "all_to_all"):
        sources = (sources[number],)  # its parts lie in a list
    if not meeting.group.is_complete:
        return Expectation(share, received, reason="not all ranks were recorded, and nothing tells who is in its group")
    missing = [rank for rank in sources if rank not in meeting.shares]
    if missing:
        return Expectation(share, received, reason=f"rank {missing[0]} has no record of it")
    senders = [meeting.shares[rank] for rank in sources]
    if reason := _why_not(senders, share, received):
        return Expectation(share, received, reason=reason)
    rows = _rows(meeting, share, number, senders, received)
    if isinstance(rows, str):
        return Expectation(share, received, reason=rows)
    if any(sum(piece.count for piece in row) != received.leaf.numel for row in rows):
        return Expectation(share, received, reason="the sizes of what was sent and received do not fit together")
    return Expectation(share, received, rows, share.reduction)


def _why_not(senders: Sequence[Share], share: Share, received: Sent) -> str:
    """Return why a law cannot be applied at all, "" where it can."""
    silent = next((sender.rank for sender in senders if not sender.sent), None)
    if silent is not None:
        return f"what rank {silent} sent is not recorded"
    if {sender.reduction for sender in senders} | {share.reduction} != {share.reduction}:
        return "the ranks name different reductions"
    if share.reduction and share.reduction not in _REDUCED:
        return f"the reduction {share.reduction} has no law here"
    if share.reduction and not _can_be_reduced(received.leaf.dtype, share.reduction):
        return f"what {share.reduction} is of {received.leaf.dtype} is up to the library"
    dtypes = {sent.leaf.dtype for sender in senders for sent in sender.sent} | {received.leaf.dtype}
    if len(dtypes) > 1:
        return f"it mixes dtypes: {', '.join(sorted(dtypes))}"
    return ""


def _rows(
    meeting: Meeting, share: Share, number: int, senders: Sequence[Share], received: Sent
) -> tuple[tuple[Piece, ...], ...] | str:
    """Return the rows that make up a received tensor, or why nobody can tell."""
    here = meeting.group.ranks.index(share.rank) if share.rank in meeting.group.ranks else 0
    size = len(meeting.group.ranks)
    if meeting.kind in ("all_reduce", "reduce"):
        if any(len(sender.sent) != len(share.received) for sender in senders):
            return "the ranks sent different numbers of tensors"
        return tuple((_whole(sender, number),) for sender in senders)
    if meeting.kind in ("broadcast", "send"):
        return ((_whole(senders[0], number),),) if number < len(senders[0].sent) else "its root sent fewer tensors"
    if meeting.kind in ("all_gather", "gather"):
        return (tuple(_whole(sender, 0) for sender in senders),)
    pieces = [piece for sender in senders if (piece := _part(sender, here, size)) is not None]
    if len(pieces) < len(senders):
        return "the sizes of its parts are not recorded"
    return (tuple(pieces),) if meeting.kind == "all_to_all" else tuple((piece,) for piece in pieces)


def _whole(share: Share, number: int) -> Piece:
    leaf = share.sent[number].leaf
    return Piece(share, leaf, 0, leaf.numel)


def _part(share: Share, index: int, size: int) -> Piece | None:
    """Return what a sender has for the rank at an index of the group: a tensor of its list, or a part of its tensor."""
    if not share.operator.is_joined:
        return _whole(share, index) if index < len(share.sent) else None
    leaf, lengths = share.sent[0].leaf, share.splits[1]
    if not lengths:
        return None if leaf.numel % size else Piece(share, leaf, leaf.numel // size * index, leaf.numel // size)
    if index >= len(lengths) or min(lengths) < 0 or not leaf.shape or sum(lengths) != leaf.shape[0]:
        return None
    row = leaf.numel // leaf.shape[0] if leaf.shape[0] else 0
    return Piece(share, leaf, row * list(accumulate(lengths, initial=0))[index], row * lengths[index])


def _can_be_reduced(dtype: str, reduction: str) -> bool:
    return precision_of(dtype) is not None or (dtype.startswith(_INTEGERS) and reduction != "avg")
