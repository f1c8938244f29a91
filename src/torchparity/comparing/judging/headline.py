"""What to do about a comparison: the headline a person reads, and the advisor's three lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.judging.deviation import deviation
from torchparity.comparing.judging.divergence import Divergence
from torchparity.comparing.msprobe.columns import Mode
from torchparity.comparing.pairing.rows import Row
from torchparity.naming import OPTIMIZER
from torchparity.text import counted, one_line

_SUSPECT = {"real": "No", "statistics": "Warning", "md5": "Different"}
_INPUT = (
    "Trace where this input comes from: an operation that is not recorded or an in-place call may lie before it; "
    "record more (risk_level ALL, level mix), then rule out memory that was overwritten."
)
_ADVICE = {
    "forward input": _INPUT,
    "forward output": "This operator's forward computation is wrong: run it alone against a higher precision, "
    "try deterministic mode (seed_all(mode=True)), then another device.",
    "backward input": "The gradient was wrong when it arrived: look at the loss and at the backward record before it.",
    "backward output": "This operator's backward computation is wrong: run it alone against a higher precision.",
    "first input": "The two runs started from different data or weights: check seeds, data order and checkpoint.",
    "nan": "There is nan or inf where the baseline has numbers: find the first record that makes one.",
}
_BY_KIND = {
    "argument": "The two runs call it with another argument: check the configuration of this operator.",
    "weights": _ADVICE["first input"],
    "data": _ADVICE["first input"],
    "unpaired": "Only one of the runs makes the call before it: check whether both are of one model.",
}
_SMALL = "The difference is small enough for every row to meet the accuracy requirements, and more than rounding."
_WORST = 5
_WORST_ROWS = " The rows that are furthest apart:"
_INCOMPARABLE = "No row could be compared: check that both runs are of one model and kept the same kind of data."
_NOTHING = "All data in comparison result meets the accuracy requirements."


def agreement(*, has_compared: bool, paired: int, alone: int, parts: int, lost: int) -> str:
    """Return the one sentence for runs that part nowhere: whether they agree, and what nobody could compare."""
    if not paired:
        return "The runs cannot be compared: they have no record in common."
    unread = f"{counted(lost, 'row')} of which one run has nothing that can be read"
    if not has_compared:
        why = f"there are {unread}" if lost else "their common records hold nothing to compare"
        return f"The runs cannot be compared: {why}."
    left = [f"{counted(alone, 'record')} of one run alone"] if alone else []
    left += [f"{parts} {'ranks or steps' if parts > 1 else 'rank or step'} of one run alone"] if parts else []
    left += [unread] if lost else []
    rest = f"; {' and '.join(left)} could not be compared" if left else ""
    return f"The runs agree: no record differs by more than rounding{rest}."


def headline(found: Divergence, parent: str | None, frame: str | None, mode: Mode, *, is_later: bool = False) -> str:
    """Return the one sentence that names where the runs part; `is_later`: an earlier step agrees."""
    off = "another checksum" if mode == "md5" else f"off by {_amount(found.deviation)}"
    place = f" in {parent}" if parent else ""
    item = found.item.removeprefix(f"{found.record}.")
    line = f" ({frame})" if frame else ""
    if found.kind == "operator":
        received = "equal" if found.input_deviation == 0 else f"within {_amount(found.input_deviation)}"
        return f"First divergence: {found.record}{place}: inputs {received}, {item} {off}{line}."
    if found.values is not None:
        mine, other = found.values
        called = f"called with {item}={mine}, the baseline with {other}"
        shown = "and so its output differs" if found.is_shown else "which shows in later records alone"
        return f"First difference: {found.record}{place}: {called}, {shown}{line}."
    since = "already"
    if is_later and (found.kind == "weights" or parent == OPTIMIZER):
        since = "although the step before agrees, which an optimizer can make of rounding"
    words = {
        "weights": f"the weights differ {since}",
        "data": f"{'its state differs' if parent == OPTIMIZER else 'the data differ'} {since}",
        "unpaired": f"its input differs after {found.unpaired}, which only one run has",
        "gap": "its input differs although all recorded before it agrees, so something between is not recorded",
    }
    return f"First difference: {found.record}{place}: {words[found.kind]}; {item} {off}{line}."


def advisor_text(rows: Sequence[Row], mode: Mode, found: Divergence | None = None) -> str:
    """Return the three labelled lines of the seeds: the first suspect row in table order, its name, and advice.

    Where no row is as far apart as the seeds' verdicts ask for, the row where the runs part is the suspect.
    """
    for line, row in enumerate(rows):
        if row.verdict == _SUSPECT[mode] and row.candidate is not None:
            advice = _ADVICE[_situation(row, is_first=row.record == rows[0].record)]
            return f"Line: {line}\nSuspect Nodes: {one_line(row.name)}\nExpert Advice: {advice}\n"
    if found is not None:
        advice = f"{_BY_KIND.get(found.kind) or _ADVICE[_situation(rows[found.row], is_first=False)]} {_SMALL}"
        return f"Line: {found.row}\nSuspect Nodes: {one_line(found.item)}\nExpert Advice: {advice}\n"
    known = [(distance, row) for row in rows if (distance := deviation(row, mode)) is not None]
    if not known:
        return f"Line: NA\nSuspect Nodes: NA\nExpert Advice: {_INCOMPARABLE}\n"
    apart = [(distance, row) for distance, row in known if distance > 0]
    worst = sorted(apart, key=lambda entry: -entry[0])[:_WORST]
    listed = "".join(f"\n  {row.name} off by {_amount(distance)}" for distance, row in worst)
    return f"Line: NA\nSuspect Nodes: NA\nExpert Advice: {_NOTHING}{_WORST_ROWS + listed if listed else ''}\n"


def _situation(row: Row, *, is_first: bool) -> str:
    if row.mismatched or _turned_nonfinite(row):
        return "nan"
    if row.direction == "forward":
        if row.is_input:
            return "first input" if is_first else "forward input"
        return "forward output"
    return "backward input" if row.role == "input" else "backward output"


def _turned_nonfinite(row: Row) -> bool:
    if row.candidate is None or row.baseline is None:
        return False
    pairs = zip(row.candidate.values()[:2], row.baseline.values()[:2], strict=True)
    return any(
        isinstance(left, float) and not math.isfinite(left) and isinstance(right, float) and math.isfinite(right)
        for left, right in pairs
    )


def _amount(value: float) -> str:
    return "nan, inf or another shape" if math.isinf(value) else f"{value:.3g} relative"
