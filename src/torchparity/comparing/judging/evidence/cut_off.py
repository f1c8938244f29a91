"""A run that ended within a step while the other went on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.part import ComparedPart
from torchparity.records import Record
from torchparity.storage import RunPart

_SENTENCE = r"step \d+ was cut off by (\w+)"


class CutOff(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one run within a step; `error` is the name of the exception, "" where nobody knows it."""

    side: str
    step: int
    rank: int
    error: str
    last: str  # record that was finished
    unfinished: int  # pairs of records of which one run alone has a result

    def said(self, *, has_ranks: bool) -> str:
        """Return in a clause which run was cut off, and where."""
        where = f"step {self.step}, rank {self.rank}" if has_ranks else f"step {self.step}"
        return f"The {self.side} was cut off in {where}{f' by {self.error}' if self.error else ''}"


def first_cut_off(parts: Sequence[ComparedPart]) -> CutOff | None:
    """Return where one of the runs was cut off and the other was not."""
    return next((found for part in parts if (found := cut_off_of(part)) is not None), None)


def cut_off_of(part: ComparedPart) -> CutOff | None:
    """Return where one side alone of a part was cut off; None where both sides are whole, or neither is."""
    errors = _error(part.candidate), _error(part.baseline)
    if (errors[0] is None) == (errors[1] is None):
        return None
    side, run = ("candidate", part.candidate) if errors[0] is not None else ("baseline", part.baseline)
    finished = [record.name for record in run.records.values() if _has_returned(record)]
    last = finished[-1] if finished else ""
    unfinished = sum(_is_unfinished(pair.candidate, pair.baseline) for pair in part.pairs)
    error = errors[0] or errors[1] or ""
    return CutOff(side=side, step=part.step, rank=part.rank, error=error, last=last, unfinished=unfinished)


def finished_in_both(
    records: Sequence[JudgedRecord], mine: Mapping[str, Record], others: Mapping[str, Record]
) -> list[JudgedRecord]:
    """Return the pairs of records without those that only one run finished: calls around the place of the cut."""
    return [
        record
        for record in records
        if not _is_unfinished(mine.get(record.name), others.get(record.baseline_name or ""))
    ]


def _error(part: RunPart) -> str | None:
    """Return the name of the exception that cut a part off, "" of one that nobody saw; None of a whole part."""
    found = [match[1] for sentence in part.missing if (match := re.search(_SENTENCE, sentence))]
    if found:
        return found[0]
    return "" if not part.is_complete and part.info.task != "structure" else None


def _is_unfinished(mine: Record | None, other: Record | None) -> bool:
    return mine is not None and other is not None and _has_returned(mine) != _has_returned(other)


def _has_returned(record: Record) -> bool:
    return any(item.role == "output" for item in record.items())
