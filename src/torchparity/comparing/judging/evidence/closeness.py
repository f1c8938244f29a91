"""The closeness of those records of one rank that no finding explains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from torchparity.comparing.measuring.item_comparison import ItemComparison

Furthest = tuple[float, str]  # a deviation, and the item that has it


class Closeness:
    """The deviations of records that differ; those that a finding explains are left out."""

    def __init__(self) -> None:
        self._largest: dict[tuple[int, str], Furthest] = {}  # by step and record
        self._remainders: dict[tuple[int, str], Furthest] = {}
        self._explained: set[tuple[int, str]] = set()

    def measure(self, step: int, record: str, entry: ItemComparison, *, is_remainder: bool = False) -> None:
        """Take note of an item that differs; a remainder is what sums that cancel, or steps of noise, leave."""
        deviation = entry.deviation or 0.0
        here = (step, record)
        self._largest.setdefault(here, (0.0, ""))
        largest = self._remainders if is_remainder else self._largest
        if largest.setdefault(here, (0.0, ""))[0] < deviation < math.inf:
            largest[here] = deviation, entry.name

    def explain(self, step: int, records: Iterable[str]) -> None:
        """Leave out records that a finding explains, or that nobody asked about."""
        self._explained |= {(step, record) for record in records}

    @property
    def has_unequal(self) -> bool:
        """True where anything differs at all."""
        return bool(self._largest)

    @property
    def furthest(self) -> Furthest:
        """The largest deviation that no finding explains, and the item that has it."""
        return self._furthest(self._largest)

    @property
    def furthest_remainder(self) -> Furthest:
        """The same among remainders."""
        return self._furthest(self._remainders)

    def _furthest(self, largest: Mapping[tuple[int, str], Furthest]) -> Furthest:
        left = (entry for here, entry in largest.items() if here not in self._explained)
        return max(left, key=lambda entry: entry[0], default=(0.0, ""))
