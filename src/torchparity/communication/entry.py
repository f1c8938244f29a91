"""The way in: a run in, the laws of its communication out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torchparity.communication.clocks import Clocks
from torchparity.communication.laws.checking import check_meeting
from torchparity.communication.laws.findings import LawReport, UncheckedLaw
from torchparity.communication.laws.replicas import Replicas
from torchparity.communication.meetings import Meetings
from torchparity.naming import family_of
from torchparity.storage import RunPart, open_run

Show = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


def check_laws(run: str | Path, step: int | None = None, show: Show = lambda what, done, of: None) -> LawReport:
    """Check every law of communication on a run of several ranks; one run is enough.

    `step` looks at that step alone.
    """
    opened = open_run(run)
    return laws_of(opened.select(step), show)


def laws_of(parts: Sequence[RunPart], show: Show = lambda what, done, of: None) -> LawReport:
    """Check every law on the parts of a run."""
    report, replicas = LawReport(), Replicas()
    by_step: dict[int, list[RunPart]] = {}
    for part in sorted(parts, key=lambda each: (each.step, each.rank)):
        by_step.setdefault(part.step, []).append(part)
        report.notes += part.problems
    for number, (step, of_step) in enumerate(by_step.items()):
        if len(of_step) == 1:
            reason = "the step has one rank, and a law needs several"
            report.unchecked.append(UncheckedLaw(step, "all", (of_step[0].rank,), "all", reason))
            continue
        _check_step(of_step, report)
        replicas.check_step(of_step, report)
        show("checking", number + 1, len(by_step))
    return report


def _check_step(parts: Sequence[RunPart], report: LawReport) -> None:
    meetings = Meetings(parts)
    clocks = Clocks(meetings)
    for meeting in sorted(meetings.all, key=clocks.end):
        check_meeting(meeting, meetings.parts, report)
    for (rank, record), reason in meetings.left_out.items():
        law = family_of(record).partition(".")[2]
        report.unchecked.append(UncheckedLaw(parts[0].step, law, (rank,), record, reason))
