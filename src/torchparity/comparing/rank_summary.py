"""One summary over steps and ranks: how many rows of each differ, and which is the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from torchparity.comparing.judging.verdict import Finding
from torchparity.comparing.measuring.rounding import is_apart
from torchparity.comparing.part import PartComparison
from torchparity.comparing.rank_map import numbered

_MOST_LINES = 10
COLUMNS = (
    *("Step", "Rank", "Baseline step", "Baseline rank", "Records", "Records paired", "Rows compared"),
    *("Rows that differ", "First row that differs", "Largest deviation", "Row of the largest", "Runs part here"),
)


class RankSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one rank: rows differ where they are further apart than the rounding of their dtypes."""

    step: int
    rank: int
    baseline_step: int
    baseline_rank: int
    records: int
    paired: int
    rows: int
    differing: int
    first: str | None
    largest: float | None
    largest_row: str | None
    parts_here: bool

    @property
    def cells(self) -> tuple[object, ...]:
        """The row of the summary's table."""
        return msgspec.structs.astuple(self)


def rank_summaries(parts: Sequence[PartComparison], first: Finding | None) -> list[RankSummary]:
    """Return a summary of each part; `first` is where the runs part."""
    return [_summary(part, first) for part in parts]


def summary_lines(summaries: Sequence[RankSummary]) -> list[str]:
    """Return a line for each rank, those of equal ranks in one, and how many more there are; none for one rank."""
    if len({entry.rank for entry in summaries}) < 2:
        return []
    lines = list(_lines(summaries))
    left = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"and {left} more"] if left > 0 else lines


def _summary(part: PartComparison, first: Finding | None) -> RankSummary:
    compared = [entry for entry in part.comparisons if entry.deviation is not None]
    apart = [entry for entry in compared if is_apart(entry)]
    largest = max(apart, key=lambda entry: entry.deviation or 0.0, default=None)
    return RankSummary(
        step=part.step,
        rank=part.rank,
        baseline_step=part.baseline.step,
        baseline_rank=part.baseline.rank,
        records=len(part.pairs),
        paired=sum(pair.how != "unmatched" for pair in part.pairs),
        rows=len(compared),
        differing=len(apart),
        first=apart[0].name if apart else None,
        largest=largest.deviation if largest is not None else None,
        largest_row=largest.name if largest is not None else None,
        parts_here=first is not None and (first.step, first.rank) == (part.step, part.rank),
    )


def _lines(summaries: Sequence[RankSummary]) -> Iterator[str]:
    has_steps = len({entry.step for entry in summaries}) > 1
    for (step, text), entries in groupby(summaries, key=lambda entry: (entry.step, _text(entry))):
        where = f"step {step}, " if has_steps else ""
        yield f"{where}{numbered('rank', [entry.rank for entry in entries])}: {text}"


def _text(entry: RankSummary) -> str:
    if not entry.rows:
        return "nothing was compared"
    if not entry.differing:
        return f"none of {entry.rows} rows differs" if entry.rows > 1 else "the row agrees"
    here = "; the runs part here" if entry.parts_here else ""
    return f"{entry.differing} of {entry.rows} rows differ, first {entry.first}{here}"
