"""The result of comparing two items: one frozen type, with numbers as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

import msgspec

from torchparity.comparing.pairing.items import INPUT_ROLES, ItemPair, Side
from torchparity.records import PairMetrics, TensorLeaf

Number = int | float
FourNumbers = tuple[Number | None, Number | None, Number | None, Number | None]  # of max, min, mean and norm


class Reason(Enum):
    """Why two items were not compared."""

    NO_PARTNER = "only one run has the item"
    CANDIDATE_HAS_NO_VALUES = "the candidate stored no values of it"
    BASELINE_HAS_NO_VALUES = "the baseline stored no values of it"
    OTHER_SHAPE = "the tensors have different shapes"
    EMPTY = "the tensors have no elements"
    UNREADABLE = "the values could not be read"
    HIDDEN = "a mask hides the other elements"
    NO_CHECKSUM = "neither run has a checksum of it"


class StatisticsDifference(msgspec.Struct, frozen=True, gc=False):
    """The differences of max, min, mean and norm: candidate - baseline, and that relative to the baseline.

    None stands where a statistic is no number in one of the runs, in `relative` also where both are zero; a
    number against zero is infinite.
    """

    absolute: FourNumbers
    relative: FourNumbers


class ChecksumDifference(msgspec.Struct, frozen=True, gc=False):
    """The checksums of both items; None where a run has none."""

    candidate: str | None
    baseline: str | None

    @property
    def are_equal(self) -> bool:
        """True where both runs have the same checksum."""
        return self.candidate == self.baseline


class NotCompared(msgspec.Struct, frozen=True, gc=False):
    """That the items were not compared, and why; `detail` is the sentence of an error."""

    reason: Reason
    detail: str = ""


Outcome = PairMetrics | StatisticsDifference | ChecksumDifference | NotCompared
_MEASURES: dict[type[Outcome], str] = {
    PairMetrics: "values",
    StatisticsDifference: "statistics",
    ChecksumDifference: "checksums",
}


class ItemComparison(msgspec.Struct, frozen=True, gc=False):
    """A pair of items and what comparing it gave.

    `deviation` is how far the two sides are apart, relative to the baseline: 0 where they are equal, infinite for
    other shapes, other positions of nan or other checksums, None where nobody can tell. It is known for some pairs
    that are not compared in the way of the others: numbers among tensors, or statistics where values are missing.
    """

    pair: ItemPair
    outcome: Outcome
    deviation: float | None

    @property
    def metrics(self) -> PairMetrics | None:
        """The metrics of two tensors whose values were compared."""
        return self.outcome if isinstance(self.outcome, PairMetrics) else None

    @property
    def statistics(self) -> StatisticsDifference | None:
        """The differences of two items whose statistics were compared."""
        return self.outcome if isinstance(self.outcome, StatisticsDifference) else None

    @property
    def checksums(self) -> ChecksumDifference | None:
        """The checksums of two items that were compared by them."""
        return self.outcome if isinstance(self.outcome, ChecksumDifference) else None

    @property
    def reason(self) -> Reason | None:
        """Why the items were not compared, or None."""
        return self.outcome.reason if isinstance(self.outcome, NotCompared) else None

    @property
    def compared_by(self) -> str | None:
        """The means of the comparison: values, statistics, checksums, shapes, or as arguments; None: not at all."""
        if self.deviation is None:
            return None
        if self.pair.is_argument:
            return "arguments"
        if isinstance(self.outcome, NotCompared):
            return "shapes" if self.outcome.reason in (Reason.OTHER_SHAPE, Reason.NO_PARTNER) else "statistics"
        return _MEASURES[type(self.outcome)]

    @property
    def mismatched(self) -> int:
        """The number of elements that are nan or infinite and not the same on the other side."""
        return self.outcome.mismatched if isinstance(self.outcome, PairMetrics) else 0

    @property
    def record(self) -> str:
        """The name of the record the item belongs to: the candidate's, where it has one."""
        return self.pair.record

    @property
    def role(self) -> str:
        """The role of the item in its record: input, output, parameters, …"""
        return self.pair.role

    @property
    def direction(self) -> str:
        """The direction of the record."""
        return self.pair.direction

    @property
    def candidate(self) -> Side | None:
        """The candidate's item."""
        return self.pair.candidate

    @property
    def baseline(self) -> Side | None:
        """The baseline's item."""
        return self.pair.baseline

    @property
    def name(self) -> str:
        """The candidate's name of the item, or the baseline's where the candidate has none."""
        return self.pair.name

    @property
    def is_input(self) -> bool:
        """True where the record received the item."""
        return self.pair.role in INPUT_ROLES

    @property
    def is_matched(self) -> bool:
        """True where both runs have the item."""
        return self.pair.is_matched


def counted_by_measure(comparisons: Iterable[ItemComparison]) -> Counter[str]:
    """Return how many items were compared by what."""
    counts = dict.fromkeys(_MEASURES, 0)
    others: Counter[str] = Counter()
    for comparison in comparisons:
        if comparison.deviation is None:
            continue
        kind, side = comparison.outcome.__class__, comparison.pair.candidate
        if kind is not NotCompared and side is not None and side.leaf.__class__ is TensorLeaf:  # nearly every item
            counts[kind] += 1
        elif (measure := comparison.compared_by) is not None:
            others[measure] += 1
    return others + Counter({_MEASURES[kind]: number for kind, number in counts.items()})
