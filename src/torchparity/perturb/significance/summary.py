"""Calls of a step by API and by module, the least significant first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torchparity.naming import family_of, forward_of, is_module_name
from torchparity.perturb.significance.estimate import Estimate

_WORST_FIRST = ("wrong", "nan", "not deterministic", "ill-conditioned", "unknown", "sound")


@dataclass
class Entry:
    """An API or a module: how many calls, and the worst of them."""

    kind: str
    name: str
    calls: int
    worst: Estimate
    worst_call: str
    place: int  # of the worst call among those of the step

    def add(self, call: str, place: int, estimate: Estimate) -> None:
        self.calls += 1
        if _badness(estimate) < _badness(self.worst):
            self.worst, self.worst_call, self.place = estimate, call, place

    def is_worse_than(self, other: Entry) -> bool:
        """Tell whether its worst call is worse than that of another."""
        return _badness(self.worst) < _badness(other.worst)

    def row(self, rank: int, step: int) -> list[object]:
        """Return the entry as a row of significance.csv."""
        worst = self.worst
        numbers = [f"{worst.bits:.1f}", worst.precision, f"{worst.condition:.3g}"]
        error = "" if worst.error is None else f"{worst.error:.3g}"
        return [rank, step, self.kind, self.name, self.calls, *numbers, error, worst.verdict, self.worst_call]

    def sentence(self) -> str:
        """Return the entry in words."""
        worst = self.worst
        if worst.verdict == "wrong":
            return (
                f"{self.name}: wrong, {worst.error:.3g} off from float64, where its condition and rounding explain "
                f"{worst.explained:.3g} ({self.worst_call})"
            )
        return (
            f"{self.name}: {worst.bits:.1f} of {worst.precision} bits are significant, "
            f"condition {worst.condition:.3g}, {worst.verdict} ({self.worst_call})"
        )


class Summary:
    """The calls of one step."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._estimates = 0

    def add(self, api: str, call: str, parents: Iterable[str], estimate: Estimate) -> None:
        """Take a call; it counts for its API and for every module around it."""
        self._estimates += 1
        modules = dict.fromkeys(_module(parent) for parent in parents)
        for key in (("api", api), *(("module", module) for module in modules)):
            entry = self._entries.get(key)
            if entry is None:
                self._entries[key] = Entry(*key, 1, estimate, call, self._estimates)
            else:
                entry.add(call, self._estimates, estimate)

    def ranked(self) -> list[Entry]:
        """Return the entries, APIs before modules and the worst first; of equals the one that came first."""
        return sorted(self._entries.values(), key=lambda entry: (entry.kind, _badness(entry.worst), entry.place))


def _badness(estimate: Estimate) -> tuple[int, float, float]:
    if estimate.verdict == "nan":
        return _WORST_FIRST.index(estimate.verdict), 0.0, 0.0  # only the first counts: the others may have received it
    condition = -estimate.condition if math.isfinite(estimate.condition) else -math.inf
    return _WORST_FIRST.index(estimate.verdict), estimate.bits - estimate.precision, condition


def _module(parent: str) -> str:
    """Return a module's name without the number of its call."""
    return family_of(forward_of(parent)) if is_module_name(parent) else parent
