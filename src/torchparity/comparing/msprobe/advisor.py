"""Writes msprobe's advisor file: the suspect row, its name, and what to do about it, all of it from the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from torchparity.comparing.judging.sentences import amount_text
from torchparity.comparing.judging.verdict import Finding, Kind, Verdict
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.measuring.rounding import is_apart
from torchparity.comparing.msprobe.rows import TableRow
from torchparity.naming import OPTIMIZER
from torchparity.text import counted, one_line

_SUSPECT: dict[Mode, str] = {"values": "No", "statistics": "Warning", "checksums": "Different"}
_FORWARD = (
    "This operator's forward computation is wrong: run it alone against a higher precision, "
    "try deterministic mode (seed_all(mode=True)), then another device."
)
_BACKWARD = (
    "This operator's backward computation is wrong: run it alone against a higher precision, and look at the "
    "gradient that flowed in."
)
_UPDATE = "The optimizer's result is wrong: compare its settings and its state in both runs."
_SAVED = "A value that was saved differs: trace in the code where it comes from."
_ADVICE = {
    Kind.ARGUMENT: "The two runs call it with a different argument: check the configuration of this operator.",
    Kind.WEIGHTS: "The two runs have different weights here: load the same checkpoint, and check how they are set.",
    Kind.DATA: "The two runs got different data here: check the order of the data, shuffling, and what is computed "
    "outside of the recording.",
    Kind.RANDOM: "The two runs drew different random numbers: set the same seeds with seed_all(seed), and list the "
    "calls that draw with random_save.",
    Kind.UNINITIALISED: "It reads memory that nobody has written, so that its result is chance in both runs: fill "
    "the tensor first (zeros for empty).",
    Kind.MISSING_GRADIENT: "A gradient comes in one run alone: look for detach(), no_grad or requires_grad_(False) "
    "on the way.",
    Kind.SHAPE: "The two runs have tensors of different shapes here: compare the configuration and what the call is "
    "given.",
    Kind.NONFINITE: "There is nan or inf in one run alone, and this record made the first: look at its inputs "
    "(torchparity show RUN RECORD), for a division by zero, an overflow or a mask of all.",
    Kind.DTYPE: "The two runs compute in different dtypes: compare runs of one dtype to see anything finer.",
    Kind.MODEL: "These look like different models: check that both runs are of one model.",
    Kind.BATCH: "The two runs have different batch sizes: give both the same to compare every record.",
    Kind.CALL: "Only one of the runs makes the call before it: check whether both take the same branch of one model.",
    Kind.UNRECORDED: "Trace where this input comes from: an operation that is not recorded or an in-place call may "
    "lie before it; record more (risk_level ALL, level mix), then rule out memory that was overwritten.",
    Kind.UNKNOWN: "Check that both runs are of one model and kept the same kind of data.",
}
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
        return _text("NA", "NA", f"{verdict.sentence} {_ADVICE[verdict.kind]}")
    if first is None:
        return _text("NA", "NA", _of_agreement(rows, mode, verdict))
    here = next((found for found in (first, *verdict.also) if (found.step, found.rank) == (step, rank)), None)
    if here is not first:
        return _of_another_part(rows, first, here)
    passed = "" if _failed(rows, mode) else f" {_MEETS_REQUIREMENTS}"
    row = rows[first.row]
    return _text(str(first.row), row.name, f"{_advice(verdict.kind, first, row)}{passed}")


def _text(line: str, suspect: str, advice: str) -> str:
    return f"Line: {line}\nSuspect Nodes: {one_line(suspect)}\nExpert Advice: {advice}\n"


def _advice(kind: Kind, finding: Finding, row: TableRow) -> str:
    if kind is not Kind.OPERATOR:
        return _ADVICE[kind]
    explanation = f" Mind: {one_line(finding.explanation)}." if finding.explanation else ""
    by_direction = {"forward": _UPDATE if finding.module == OPTIMIZER else _FORWARD, "debug": _SAVED}
    return f"{by_direction.get(row.comparison.direction, _BACKWARD)}{explanation}"


def _of_another_part(rows: Sequence[TableRow], first: Finding, here: Finding | None) -> str:
    """Return the text of a part that does not have the first finding, but may have an independent one."""
    where = f"The first difference is on rank {first.rank}, step {first.step}: {one_line(first.record)}."
    if here is not None:
        row = rows[here.row]
        return _text(str(here.row), row.name, f"{where} Independent of it: {_advice(here.kind, here, row)}")
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
        said = f"{said} {_ADVICE[verdict.kind]}"
    if failed:
        of_rows = f"{len(failed)} of {counted(len(rows), 'row')}"
        said += f" By msprobe's rule {of_rows} are {_SUSPECT[mode]} all the same, first {one_line(failed[0].name)}."
    apart = [(distance, row.name) for row in rows if (distance := row.comparison.deviation)]
    worst = sorted(apart, key=lambda entry: -entry[0])[:_MOST_LISTED_ROWS]
    listed = "".join(f"\n  {one_line(name)} off by {amount_text(distance)}" for distance, name in worst)
    return f"{said}{_WORST_ROWS_LABEL + listed if listed else ''}"


def _failed(rows: Sequence[TableRow], mode: Mode) -> list[TableRow]:
    """Return the rows that msprobe's verdict is against."""
    return [row for row in rows if row.verdict == _SUSPECT[mode] and row.candidate is not None]
