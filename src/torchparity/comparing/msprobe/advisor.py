"""Writes msprobe's advisor file: the suspect row, its name, and what to do about it, all of it from the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from torchparity.comparing.judging.evidence.beyond_numbers import beyond_numbers
from torchparity.comparing.judging.verdict import Finding, Kind, Verdict
from torchparity.comparing.judging.wording.advice import advice
from torchparity.comparing.judging.wording.sentences import off_text
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.measuring.rounding import is_apart
from torchparity.comparing.msprobe.rows import TableRow
from torchparity.text import counted, one_line

_SUSPECT: dict[Mode, str] = {"values": "No", "statistics": "Warning", "checksums": "Different"}
_MEETS_REQUIREMENTS = (
    "The difference is small enough for every row to meet the accuracy requirements, and more than rounding."
)
_ALL_PASSED = "All data in comparison result meets the accuracy requirements."
_MOST_LISTED_ROWS = 5
_WORST_ROWS_LABEL = " The rows that are furthest apart:"


def advisor_text(rows: Sequence[TableRow], mode: Mode, verdict: Verdict, *, step: int, rank: int) -> str:
    """Return msprobe's three labelled lines for one part: the suspect's row, its name, and advice."""
    first = verdict.first
    if verdict.kind is Kind.UNKNOWN or (first is None and verdict.kind is Kind.MODEL):
        return _text("NA", "NA", f"{verdict.sentence} {verdict.advice}")
    if first is None:
        return _text("NA", "NA", _of_agreement(rows, mode, verdict))
    here = next((found for found in (first, *verdict.also) if (found.step, found.rank) == (step, rank)), None)
    if here is not first:
        return _of_another_part(rows, first, here)
    passed = "" if _failed(rows, mode) else f" {_MEETS_REQUIREMENTS}"
    return _text(str(first.row), rows[first.row].name, f"{one_line(verdict.advice)}{passed}")


def _text(line: str, suspect: str, what_to_do: str) -> str:
    return f"Line: {line}\nSuspect Nodes: {one_line(suspect)}\nExpert Advice: {what_to_do}\n"


def _of_another_part(rows: Sequence[TableRow], first: Finding, here: Finding | None) -> str:
    """Return the text of a part that does not have the first finding, but may have an independent one."""
    where = f"The first difference is on rank {first.rank}, step {first.step}: {one_line(first.record)}."
    if here is not None:
        independent = f"Independent of it: {one_line(advice(here.kind, here))}"
        return _text(str(here.row), rows[here.row].name, f"{where} {independent}")
    apart = [row for row in rows if is_apart(row.comparison)]
    shown = "Nothing here differs by more than rounding."
    if apart:
        shown = f"Here {len(apart)} of {counted(len(rows), 'row')} differ by more than rounding, the first is "
        shown += f"{one_line(apart[0].name)}."
    return _text("NA", "NA", f"{where} {shown}")


def _of_agreement(rows: Sequence[TableRow], mode: Mode, verdict: Verdict) -> str:
    failed = _failed(rows, mode)
    said = one_line(verdict.sentence) if failed or verdict.kind is not Kind.AGREE else _ALL_PASSED
    if verdict.kind is not Kind.AGREE:
        said = f"{said} {verdict.advice}"
    if failed:
        of_rows = f"{len(failed)} of {counted(len(rows), 'row')}"
        said += f" By msprobe's rule {of_rows} are {_SUSPECT[mode]} all the same, first {one_line(failed[0].name)}."
    apart = [(distance, row) for row in rows if (distance := row.comparison.deviation)]
    worst = sorted(apart, key=lambda entry: -entry[0])[:_MOST_LISTED_ROWS]
    listed = "".join(
        f"\n  {one_line(row.name)} {off_text(distance, beyond_numbers(row.comparison))}" for distance, row in worst
    )
    return f"{said}{_WORST_ROWS_LABEL + listed if listed else ''}"


def _failed(rows: Sequence[TableRow], mode: Mode) -> list[TableRow]:
    """Return the rows that msprobe's verdict is against."""
    return [row for row in rows if row.verdict == _SUSPECT[mode] and row.candidate is not None]
