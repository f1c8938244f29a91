"""Writes msprobe's advisor file: the first suspect row, its name, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.judging.sentences import amount_text
from torchparity.comparing.judging.verdict import Finding
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.msprobe.rows import TableRow
from torchparity.text import one_line

_SUSPECT: dict[Mode, str] = {"values": "No", "statistics": "Warning", "checksums": "Different"}
_TRACE_INPUT = (
    "Trace where this input comes from: an operation that is not recorded or an in-place call may lie before it; "
    "record more (risk_level ALL, level mix), then rule out memory that was overwritten."
)
_ADVICE = {
    "forward input": _TRACE_INPUT,
    "forward output": "This operator's forward computation is wrong: run it alone against a higher precision, "
    "try deterministic mode (seed_all(mode=True)), then another device.",
    "backward input": "The gradient was wrong when it arrived: look at the loss and at the backward record before it.",
    "backward output": "This operator's backward computation is wrong: run it alone against a higher precision.",
    "first input": "The two runs started from different data or weights: check seeds, data order and checkpoint.",
    "nan": "There is nan or inf where the baseline has numbers: find the first record that makes one.",
}
_BY_KIND = {
    "argument": "The two runs call it with a different argument: check the configuration of this operator.",
    "weights": _ADVICE["first input"],
    "data": _ADVICE["first input"],
    "unpaired": "Only one of the runs makes the call before it: check whether both are of one model.",
}
_MEETS_REQUIREMENTS = (
    "The difference is small enough for every row to meet the accuracy requirements, and more than rounding."
)
_MOST_LISTED_ROWS = 5
_WORST_ROWS_LABEL = " The rows that are furthest apart:"
_INCOMPARABLE = "No row could be compared: check that both runs are of one model and kept the same kind of data."
_ALL_PASSED = "All data in comparison result meets the accuracy requirements."


def advisor_text(rows: Sequence[TableRow], mode: Mode, divergence: Finding | None = None) -> str:
    """Return msprobe's three labelled lines: the first suspect row in table order, its name, and advice.

    If no row fails msprobe's verdict, the row where the runs first diverge is the suspect.
    """
    for line, row in enumerate(rows):
        if row.verdict == _SUSPECT[mode] and row.candidate is not None:
            advice = _ADVICE[_situation(row.comparison, is_first=row.record == rows[0].record)]
            return f"Line: {line}\nSuspect Nodes: {one_line(row.name)}\nExpert Advice: {advice}\n"
    if divergence is not None:
        situation = _situation(rows[divergence.row].comparison, is_first=False)
        advice = f"{_BY_KIND.get(divergence.kind) or _ADVICE[situation]} {_MEETS_REQUIREMENTS}"
        return f"Line: {divergence.row}\nSuspect Nodes: {one_line(divergence.item)}\nExpert Advice: {advice}\n"
    deviations = [(distance, row.name) for row in rows if (distance := row.comparison.deviation) is not None]
    if not deviations:
        return f"Line: NA\nSuspect Nodes: NA\nExpert Advice: {_INCOMPARABLE}\n"
    apart = [(distance, name) for distance, name in deviations if distance > 0]
    worst = sorted(apart, key=lambda entry: -entry[0])[:_MOST_LISTED_ROWS]
    listed = "".join(f"\n  {name} off by {amount_text(distance)}" for distance, name in worst)
    return f"Line: NA\nSuspect Nodes: NA\nExpert Advice: {_ALL_PASSED}{_WORST_ROWS_LABEL + listed if listed else ''}\n"


def _situation(comparison: ItemComparison, *, is_first: bool) -> str:
    if comparison.mismatched or _turned_nonfinite(comparison):
        return "nan"
    if comparison.direction == "forward":
        if comparison.is_input:
            return "first input" if is_first else "forward input"
        return "forward output"
    return "backward input" if comparison.role == "input" else "backward output"


def _turned_nonfinite(comparison: ItemComparison) -> bool:
    if comparison.candidate is None or comparison.baseline is None:
        return False
    pairs = zip(comparison.candidate.values()[:2], comparison.baseline.values()[:2], strict=True)
    return any(
        isinstance(left, float) and not math.isfinite(left) and isinstance(right, float) and math.isfinite(right)
        for left, right in pairs
    )
