"""Laws that are broken, laws that hold, and laws that cannot be checked, each with what is known of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torchparity.records import number_to_json
from torchparity.text import counted

Basis = Literal["values", "statistics", "checksums"]
_MOST_RANKS = 8


@dataclass(frozen=True)
class Measured:
    """One tensor beside what it must be: how far off relative to its norm, and how far rounding may take it.

    `detail` says more in a clause, such as how many elements are wrong.
    """

    basis: Basis
    is_broken: bool
    relative: float = 0.0
    allowed: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class BrokenLaw:
    """A law that what a run recorded contradicts; `records` has the call of each rank of the group."""

    step: int
    law: str  # "all_reduce": its name
    clause: str  # what should be so: "the sum of what the ranks sent"
    group: tuple[int, ...]
    ranks: tuple[int, ...]  # those whose tensor is wrong
    records: dict[int, str]
    item: str
    measured: Measured
    lines: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return what is wrong, where and by how much, in one sentence."""
        rank = self.ranks[0]
        where = f"step {self.step}, {ranks_said(self.ranks)} of group {list(self.group)}"
        size = _size_said(self.measured)
        line = f" ({self.lines[0]})" if self.lines else ""
        return f"{where}: {self.records[rank]}: {self.item} {self.clause}: {size}{line}."

    def to_json(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {
            "law": self.law,
            "step": self.step,
            "group": list(self.group),
            "ranks": list(self.ranks),
            "records": {str(rank): name for rank, name in self.records.items()},
            "item": self.item,
            "deviation": number_to_json(self.measured.relative),
            "expected_deviation": number_to_json(self.measured.allowed),
            "checked_by": self.measured.basis,
            "detail": self.measured.detail,
            "code_lines": list(self.lines),
            "sentence": self.sentence(),
        }


@dataclass(frozen=True)
class UncheckedLaw:
    """A law that nobody can check with what was recorded, and why."""

    step: int
    law: str
    group: tuple[int, ...]
    record: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {
            "law": self.law,
            "step": self.step,
            "group": list(self.group),
            "record": self.record,
            "reason": self.reason,
        }


@dataclass
class LawReport:
    """The answer about one run: what is broken, what cannot be checked, and how many tensors hold, by law."""

    broken: list[BrokenLaw] = field(default_factory=list)
    unchecked: list[UncheckedLaw] = field(default_factory=list)
    held: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the sentences for people: broken laws, what holds, and what could not be checked and why."""
        lines = [f"Broken: {law.sentence()}" for law in self.broken]
        if self.held:
            held = ", ".join(f"{law} {count}" for law, count in sorted(self.held.items()))
            lines.append(f"Hold: {held}.")
        reasons = Counter((law.law, law.reason) for law in self.unchecked)
        for (name, reason), count in reasons.items():
            first = next(law for law in self.unchecked if (law.law, law.reason) == (name, reason))
            where = f"step {first.step}, {first.record}" + (f" and {count - 1} more" if count > 1 else "")
            lines.append(f"Not checked: {name} ({where}): {reason}.")
        return [*lines, *(f"Note: {note}" for note in self.notes), self.headline()]

    def headline(self) -> str:
        """Return the answer in one sentence."""
        if self.broken:
            first = self.broken[0]
            where = f"{first.records[first.ranks[0]]} of step {first.step}, {ranks_said(first.ranks)}"
            return f"{counted(len(self.broken), 'law')} broken, the first by {where}."
        if not self.held:
            return "No law of communication could be checked."
        total = sum(self.held.values())
        left_out = f"; {counted(len(self.unchecked), 'law')} could not be checked" if self.unchecked else ""
        return f"Every law of communication holds, for {counted(total, 'tensor')}{left_out}."

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        return {
            "schema": 1,
            "sentence": self.headline(),
            "broken": [law.to_json() for law in self.broken],
            "unchecked": [law.to_json() for law in self.unchecked],
            "held": dict(sorted(self.held.items())),
            "notes": self.notes,
        }


def ranks_said(ranks: Sequence[int]) -> str:
    """Return "rank 2" or "ranks 0, 1 and 3"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _MOST_RANKS:
        return f"ranks {', '.join(map(str, ranks[:_MOST_RANKS]))} and {len(ranks) - _MOST_RANKS} more"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _size_said(measured: Measured) -> str:
    if measured.basis == "checksums":
        return "the checksums differ"
    size = (
        "no number tells by how much" if math.isinf(measured.relative) else f"off by {measured.relative:.3g} relative"
    )
    explains = f", where rounding explains {measured.allowed:.2g}" if measured.allowed else ""
    detail = f", {measured.detail}" if measured.detail else ""
    return f"{size}{explains}{detail} (by {measured.basis})"
