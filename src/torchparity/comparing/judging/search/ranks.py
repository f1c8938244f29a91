"""Orders findings over ranks: before the first communication first; no collective is blamed for what it was given."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.evidence.operators import communicates
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.rank_search import RankSearch
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.naming import RECOMPUTE_MARK
from torchparity.records import GroupLeaf


class Placed(msgspec.Struct, frozen=True):
    """A finding with its place in time: after how many communications of its rank, at which record."""

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
    placed = [
        Placed(finding, communications_before(search.contexts[finding.step], position), position)
        for search in searches.values()
        for position, finding in search.findings
    ]
    placed.sort(key=lambda entry: entry.order)
    return [entry for entry in placed if not _was_given(entry, searches)]


def communications_before(context: PartContext, position: int) -> int:
    """Return how many collectives a rank called before a record; ranks meet there."""
    return sum(
        record.position < position
        and record.direction == "forward"
        and communicates(record.name)
        and not record.name.endswith(RECOMPUTE_MARK)
        for record in context.records
    )


def _was_given(placed: Placed, searches: Mapping[int, RankSearch]) -> bool:
    """Tell whether a collective only passed on what another rank of its group gave it."""
    finding = placed.finding
    if not communicates(finding.record) or finding.kind is Kind.ARGUMENT or finding.item.startswith("input"):
        return False
    record = searches[finding.rank].contexts[finding.step].by_name.get(finding.record)
    if record is None:
        return False  # a call that only the candidate makes
    group = _group(record)
    for rank, search in searches.items():
        if rank == finding.rank or (group is not None and rank not in group):
            continue
        context = search.contexts.get(finding.step)
        partner = context.by_name.get(finding.record) if context is not None else None
        if partner is not None and any(entry.deviation for entry in partner.items if entry.is_input):
            return True
        if _earliest(search, finding.step) <= placed.communications:
            return True
    return False


def _earliest(search: RankSearch, step: int) -> float:
    """Return after how many communications a rank has its first finding that is no collective's."""
    context = search.contexts.get(step)
    counts = [
        communications_before(context, position)
        for position, finding in search.findings
        if context is not None and finding.step == step and finding.is_shown and not communicates(finding.record)
    ]
    return min(counts, default=float("inf"))


def _group(record: JudgedRecord) -> set[int] | None:
    for entry in record.items:
        leaf = entry.candidate.leaf if entry.candidate is not None else None
        if isinstance(leaf, GroupLeaf):
            return set(leaf.ranks)
    return None
