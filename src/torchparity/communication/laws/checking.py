"""Checks every law of one step: what each rank received, and what all ranks of a group have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from torchparity.code_lines import code_lines
from torchparity.communication.laws.by_statistics import check_statistics, check_totals
from torchparity.communication.laws.by_values import check_values
from torchparity.communication.laws.expectations import Expectation, Piece, expectations
from torchparity.communication.laws.findings import BrokenLaw, LawReport, Measured, UncheckedLaw
from torchparity.communication.meetings import Meeting
from torchparity.communication.shares import Share
from torchparity.errors import ParityError
from torchparity.storage import RunPart

_REDUCED = {
    "sum": "the sum of what the ranks sent",
    "avg": "the average of what the ranks sent",
    "max": "the maximum of what the ranks sent",
    "min": "the minimum of what the ranks sent",
    "product": "the product of what the ranks sent",
}
_SAME = ("all_reduce", "all_gather", "broadcast")  # every rank must receive the same
_COMMON = ("all_reduce", "broadcast")  # afterwards all ranks have the same


def check_meeting(meeting: Meeting, parts: Mapping[int, RunPart], report: LawReport) -> None:
    """Check one communication, and add what is found to the report."""
    step = next(iter(parts.values())).step
    expected = list(expectations(meeting))
    checked = _all_measured(meeting, expected, parts)
    failures = _failures(meeting, checked)
    if not failures and meeting.kind in _COMMON:
        common = [(entry, measured(entry, parts)) for entry in _in_common(meeting)]
        failures = _failures(meeting, common)
        checked += [(entry, found) for entry, found in common if isinstance(found, Measured) and found.is_broken]
    for (item, clause), (ranks, worst) in failures.items():
        report.broken.append(_broken(meeting, parts, step, clause, item, ranks, worst))
    for reason, entries in _unchecked(checked).items():
        if not _are_totals_right(meeting, entries, report, parts):
            record = entries[0].share.record.name
            report.unchecked.append(UncheckedLaw(step, meeting.kind, meeting.group.ranks, record, reason))
    held = sum(isinstance(found, Measured) and not found.is_broken for _, found in checked)
    if held:
        report.held[meeting.kind] += held


def _all_measured(
    meeting: Meeting, expected: Sequence[Expectation], parts: Mapping[int, RunPart]
) -> list[tuple[Expectation, Measured | str]]:
    """Measure every tensor; where all ranks must receive the same, equal ones once."""
    known: dict[object, Measured | str] = {}
    found: list[tuple[Expectation, Measured | str]] = []
    for entry in expected:
        content = _content(entry) if meeting.kind in _SAME and not entry.reason else None
        result = known.get(content) if content is not None else None
        if result is None:
            result = entry.reason or measured(entry, parts)
        if content is not None:
            known[content] = result
        found.append((entry, result))
    return found


def _content(entry: Expectation) -> object:
    """Return what tells one received tensor from another; None where that takes reading its values."""
    leaf = entry.received.leaf
    if leaf.data_name is not None and leaf.stored_in is None:
        return None
    return entry.received.item, leaf.statistics, leaf.checksum, leaf.stored_in.crc32 if leaf.stored_in else None


def measured(expected: Expectation, parts: Mapping[int, RunPart]) -> Measured | str:
    """Return how far a tensor is from what it must be, by the best that was recorded, or why nobody can tell."""
    try:
        found = check_values(expected, parts)
    except ParityError as error:
        return str(error).rstrip(".")
    if found is not None:
        return found
    by_checksum = _checked_checksum(expected)
    by_statistics = check_statistics(expected)
    return by_checksum if by_checksum is not None and isinstance(by_statistics, str) else by_statistics


def _checked_checksum(expected: Expectation) -> Measured | None:
    if not expected.is_plain or len(expected.rows) != 1:
        return None
    sent, received = expected.rows[0][0].leaf, expected.received.leaf
    if sent.checksum is None or received.checksum is None:
        return None
    return Measured("checksums", sent.checksum != received.checksum)


def _in_common(meeting: Meeting) -> Iterator[Expectation]:
    """Yield an expectation for every rank but the first: it received what the first did."""
    first, *others = meeting.shares.values()
    for share in others:
        for number, (mine, its) in enumerate(zip(share.received, first.received, strict=False)):
            if mine.leaf.dtype == its.leaf.dtype and mine.leaf.numel == its.leaf.numel and number < len(first.received):
                yield Expectation(share, mine, ((Piece(first, its.leaf, 0, its.leaf.numel),),))


def _failures(
    meeting: Meeting, checked: Sequence[tuple[Expectation, Measured | str]]
) -> dict[tuple[str, str], tuple[list[int], Measured]]:
    """Return the ranks whose tensor is wrong and the worst of them, by item and what it should be."""
    found: dict[tuple[str, str], tuple[list[int], Measured]] = {}
    for entry, result in checked:
        if isinstance(result, str) or not result.is_broken:
            continue
        ranks, worst = found.setdefault((entry.received.item, _clause(meeting, entry)), ([], result))
        ranks.append(entry.share.rank)
        if result.relative > worst.relative:
            found[entry.received.item, _clause(meeting, entry)] = ranks, result
    return found


def _clause(meeting: Meeting, expected: Expectation) -> str:
    sources = {piece.share.rank for row in expected.rows for piece in row}
    if expected.reduction:
        return f"is not {_REDUCED[expected.reduction]}"
    if meeting.kind == "all_reduce":
        return f"is not what rank {min(sources)} received"
    who = f"rank {min(sources)}" if len(sources) == 1 else "the ranks"
    return f"is not what {who} sent"


def _broken(
    meeting: Meeting,
    parts: Mapping[int, RunPart],
    step: int,
    clause: str,
    item: str,
    ranks: Sequence[int],
    worst: Measured,
) -> BrokenLaw:
    records = {rank: share.record.name for rank, share in meeting.shares.items()}
    lines = code_lines(parts[ranks[0]].stack_of(records[ranks[0]]))
    return BrokenLaw(step, meeting.kind, clause, meeting.group.ranks, tuple(ranks), records, item, worst, lines)


def _unchecked(checked: Sequence[tuple[Expectation, Measured | str]]) -> dict[str, list[Expectation]]:
    reasons: dict[str, list[Expectation]] = {}
    for entry, found in checked:
        if isinstance(found, str):
            reasons.setdefault(found, []).append(entry)
    return reasons


def _are_totals_right(
    meeting: Meeting, entries: Sequence[Expectation], report: LawReport, parts: Mapping[int, RunPart]
) -> bool:
    """Check all that was received against all that was sent, where parts of tensors went to each rank."""
    if meeting.missing or len(entries) != len(meeting.shares) or any(entry.reason for entry in entries):
        return False
    if all(entry.is_of_whole_tensors for entry in entries):
        return False
    senders: dict[int, Share] = {
        piece.share.rank: piece.share for entry in entries for row in entry.rows for piece in row
    }
    found = check_totals(entries, [share.sent[0].leaf for share in senders.values()])
    if isinstance(found, str):
        return False
    if not found.is_broken:
        report.held[meeting.kind] += 1
        return True
    clause, step = "taken over all ranks is not what they sent", next(iter(parts.values())).step
    worst = replace(found, detail=f"over all ranks {found.detail}")
    ranks = [entry.share.rank for entry in entries]
    report.broken.append(_broken(meeting, parts, step, clause, entries[0].received.item, ranks, worst))
    return True
