"""Files of records that are damaged: what a run did there is unknown, and nobody is blamed for what is not in them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.storage import RunPart

# What one record shows by itself: it is so whatever else is lost.
_SHOWN_BY_ONE_RECORD = (Kind.OPERATOR, Kind.ARGUMENT, Kind.RANDOM, Kind.NONFINITE, Kind.SHAPE)
# What rests on who made a tensor: true where the run tells that, or as long as all that came before is there.
_RESTING_ON_EARLIER = (Kind.WEIGHTS, Kind.DATA)
_MOST_PLACES = 3


class DamagedPart(msgspec.Struct, frozen=True):
    """One step and rank of one run whose files of records are damaged."""

    side: str
    step: int
    rank: int
    has_lost_records: bool  # else only what they were inside of
    has_gaps: bool  # lost records may lie between others


class Damage(msgspec.Struct, frozen=True):
    """The damaged parts of both runs, in the order of the steps; there is at least one."""

    parts: Sequence[DamagedPart]
    has_ranks: bool

    def said(self) -> str:
        """Return in a clause which files are damaged."""
        if len(self.parts) == 1:
            only = self.parts[0]
            file = "file of the records" if only.has_lost_records else "construct.json"
            return f"The {only.side}'s {file} of {self._where(only)} is damaged"
        places = [f"the {part.side}'s of {self._where(part)}" for part in self.parts[:_MOST_PLACES]]
        more = len(self.parts) - len(places)
        places += [f"{more} more"] if more else []
        files = "Files of records" if any(part.has_lost_records for part in self.parts) else "Files construct.json"
        return f"{files} are damaged ({', '.join(places)})"

    def is_shown_all_the_same(self, finding: Finding) -> bool:
        """Tell whether a finding does not rest on records that may be lost."""
        first_step = self.parts[0].step
        if finding.kind in _SHOWN_BY_ONE_RECORD or finding.step < first_step:
            return True
        has_all_before = finding.is_certain or not any(part.has_gaps for part in self.parts if part.step == first_step)
        return finding.kind in _RESTING_ON_EARLIER and finding.step == first_step and has_all_before

    def _where(self, part: DamagedPart) -> str:
        return f"step {part.step}, rank {part.rank}" if self.has_ranks else f"step {part.step}"


def damage_of(parts: Sequence[ComparedPart]) -> Damage | None:
    """Return what is damaged of two runs; None where nothing is."""
    damaged = [
        DamagedPart(side, part.step, part.rank, run.has_lost_records, run.has_gaps)
        for part in sorted(parts, key=lambda part: (part.step, part.rank))
        for side, run in (("candidate", part.candidate), ("baseline", part.baseline))
        if _is_damaged(run)
    ]
    return Damage(damaged, len({part.rank for part in parts}) > 1) if damaged else None


def is_damaged(candidate: RunPart, baseline: RunPart) -> bool:
    """Tell whether files of records of one part are damaged, in either run."""
    return _is_damaged(candidate) or _is_damaged(baseline)


def _is_damaged(run: RunPart) -> bool:
    return run.has_lost_records or run.has_lost_parents
