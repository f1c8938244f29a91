"""A law checked by statistics: sketches add up as the tensors do, and maxima, sums and norms of parts as they must."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from torchparity.communication.laws.expectations import Expectation
from torchparity.communication.laws.findings import Measured
from torchparity.communication.laws.nonfinite import check_counts, check_nonfinite, finite_part, may_wrap
from torchparity.communication.laws.roundings import (
    NUMBERS_FLOOR,
    SKETCH_FLOOR,
    SKETCH_SPREAD,
    Precision,
    precision_of,
    steps_of,
)
from torchparity.records import Statistics, TensorLeaf
from torchparity.sketches import added, estimated_norm, sums_of


@dataclass(frozen=True)
class _Numbers:
    """Numbers of a tensor, or of several put together."""

    largest: float
    smallest: float
    total: float
    square: float
    count: int

    @classmethod
    def of(cls, leaf: TensorLeaf) -> _Numbers:
        found = leaf.statistics or Statistics()
        largest, smallest, mean, norm = (float(each or 0) for each in (found.max, found.min, found.mean, found.norm))
        return cls(largest, smallest, mean * leaf.numel, norm**2, leaf.numel)

    @classmethod
    def joined(cls, entries: Sequence[_Numbers]) -> _Numbers:
        return cls(
            max(entry.largest for entry in entries),
            min(entry.smallest for entry in entries),
            math.fsum(entry.total for entry in entries),
            math.fsum(entry.square for entry in entries),
            sum(entry.count for entry in entries),
        )

    @property
    def norm(self) -> float:
        return math.sqrt(self.square)


def check_statistics(expected: Expectation) -> Measured | str:
    """Return how far a received tensor is from what it must be, or why statistics cannot tell."""
    received, rows = expected.received.leaf, expected.rows
    sent = [piece.leaf for piece in chain.from_iterable(rows)]
    if expected.is_plain and len(rows) == 1:
        return check_copy(received, sent[0])
    if broken := check_nonfinite(expected):
        return broken
    if reason := why_not_measured([received, *sent]) or _why_not_exact(sent, expected.reduction):
        return reason
    if not received.numel:
        return Measured("statistics", False)
    if received.numel == 1 and expected.is_plain:
        return _checked_number(received, sent, expected.reduction)
    if expected.is_plain and expected.reduction in ("max", "min"):
        return _checked_extremes(received, sent, expected.reduction)
    if expected.is_plain and expected.reduction in ("sum", "avg"):
        return _checked_sum(received, sent, expected.reduction)
    if expected.is_of_whole_tensors and len(rows) == 1:
        return _checked_numbers(_Numbers.of(received), _Numbers.joined([_Numbers.of(leaf) for leaf in sent]))
    what = f"the {expected.reduction} of" if expected.reduction else "a part of"
    return f"statistics cannot tell {what} tensors; record values"


def check_totals(expected: Sequence[Expectation], sent: Sequence[TensorLeaf]) -> Measured | str:
    """Return how far all that was received is from all that was sent, where parts of tensors went to each rank."""
    received = [entry.received.leaf for entry in expected]
    reduction = expected[0].reduction
    if reason := why_not_measured([*received, *sent]) or _why_not_exact(sent, reduction):
        return reason
    before, after = (_Numbers.joined([_Numbers.of(leaf) for leaf in leaves]) for leaves in (sent, received))
    if not reduction:
        return _checked_numbers(after, before)
    if reduction in ("max", "min"):
        found, true = (after.largest, before.largest) if reduction == "max" else (after.smallest, before.smallest)
        return _difference(found, true, 0.0, reduction)
    if reduction == "product":
        return "statistics cannot tell the product of tensors; record values"
    true = before.total / len(sent) if reduction == "avg" else before.total
    roundings = steps_of(len(sent)) * _unit(received[0]) + NUMBERS_FLOOR
    scale = math.fsum(_Numbers.of(leaf).norm for leaf in sent) * math.sqrt(max(leaf.numel for leaf in sent))
    return _difference(after.total, true, roundings * scale, "the sum of all elements")


def check_copy(received: TensorLeaf, sent: TensorLeaf) -> Measured | str:
    """Return how far a tensor is from one that it must be equal to, or why statistics cannot tell."""
    if broken := check_counts(received, sent):
        return broken
    received, sent = finite_part(received), finite_part(sent)
    if reason := why_not_measured([received, sent]):
        return reason
    return _checked_copy(received, sent) if received.numel else Measured("statistics", False)


def _why_not_exact(sent: Sequence[TensorLeaf], reduction: str) -> str:
    if may_wrap(sent, reduction):
        return "the integers may leave the range of their dtype, which statistics cannot tell; record values"
    return ""


def why_not_measured(leaves: Sequence[TensorLeaf]) -> str:
    """Return why statistics of some tensor tell nothing, "" where they do."""
    for leaf in leaves:
        numbers = leaf.statistics
        if numbers is None or (numbers.norm is None and leaf.numel):
            return "neither values nor statistics are recorded"
        if not all(math.isfinite(float(each or 0)) for each in (numbers.max, numbers.min, numbers.norm)):
            return "nan or inf is among the values, which statistics leave out; record values"
    return ""


def _checked_copy(received: TensorLeaf, sent: TensorLeaf) -> Measured:
    numbers = _checked_numbers(_Numbers.of(received), _Numbers.of(sent))
    after, before = received.statistics, sent.statistics
    if after is None or before is None or after.sketch is None or before.sketch is None:
        return numbers
    norm = _Numbers.of(sent).norm
    sides = zip(sums_of(after.sketch), sums_of(before.sketch), strict=True)
    found = _measured(estimated_norm([one - other for one, other in sides]), norm, SKETCH_FLOOR * norm)
    return numbers if numbers.is_broken and not found.is_broken else found


def _checked_sum(received: TensorLeaf, sent: Sequence[TensorLeaf], reduction: str) -> Measured | str:
    sketches = [leaf.statistics.sketch for leaf in sent if leaf.statistics is not None]
    result = received.statistics.sketch if received.statistics is not None else None
    known = [sketch for sketch in sketches if sketch is not None]
    if result is None or len(known) != len(sent):
        return _checked_total(received, sent, reduction)
    share = len(sent) if reduction == "avg" else 1
    exact = [number / share for number in added(known)]
    norms = math.fsum(_Numbers.of(leaf).norm for leaf in sent) / share
    roundings = SKETCH_SPREAD * steps_of(len(sent) + (reduction == "avg")) * _unit(received)
    distance = estimated_norm([one - other for one, other in zip(sums_of(result), exact, strict=True)])
    allowed = (roundings + SKETCH_FLOOR) * (norms + _Numbers.of(received).norm) + len(sent) * _smallest(received)
    return _measured(distance, max(estimated_norm(exact), _Numbers.of(received).norm), allowed)


def _checked_total(received: TensorLeaf, sent: Sequence[TensorLeaf], reduction: str) -> Measured:
    """Check the sum of all elements, where a tool wrote no sketches; what keeps that sum goes unseen."""
    share = len(sent) if reduction == "avg" else 1
    true = math.fsum(_Numbers.of(leaf).total for leaf in sent) / share
    norms = math.fsum(_Numbers.of(leaf).norm for leaf in sent) / share
    allowed = (steps_of(len(sent) + 1) * _unit(received) + NUMBERS_FLOOR) * norms * math.sqrt(received.numel)
    return _difference(_Numbers.of(received).total, true, allowed, "the sum of all elements")


def _checked_number(received: TensorLeaf, sent: Sequence[TensorLeaf], reduction: str) -> Measured:
    terms, got = [_Numbers.of(leaf).largest for leaf in sent], _Numbers.of(received).largest
    if reduction in ("max", "min"):
        return _difference(got, max(terms) if reduction == "max" else min(terms), 0.0)
    share = len(terms) if reduction == "avg" else 1
    exact = math.prod(terms) if reduction == "product" else math.fsum(terms) / share
    sizes = abs(exact) if reduction == "product" else math.fsum(map(abs, terms)) / share
    roundings = steps_of(len(terms) + (reduction == "avg")) * _unit(received)
    return _difference(got, exact, roundings * sizes + len(terms) * _smallest(received))


def _checked_extremes(received: TensorLeaf, sent: Sequence[TensorLeaf], reduction: str) -> Measured:
    """Check the extreme of all, which is exact, and that no element is on the wrong side of every input's other end."""
    after, before = _Numbers.of(received), [_Numbers.of(leaf) for leaf in sent]
    if reduction == "max":
        found, true, other = after.largest, max(each.largest for each in before), "smallest"
        is_beyond = after.smallest < max(each.smallest for each in before)
    else:
        found, true, other = after.smallest, min(each.smallest for each in before), "largest"
        is_beyond = after.largest > min(each.largest for each in before)
    measured = _difference(found, true, 0.0, reduction)
    if is_beyond and not measured.is_broken:
        return Measured("statistics", True, math.inf, 0.0, f"its {other} element is beyond that of an input")
    return measured


def _checked_numbers(after: _Numbers, before: _Numbers) -> Measured:
    """Check largest, smallest, norm and sum of elements that were only moved."""
    for name, found, true, allowed in (
        ("the largest element", after.largest, before.largest, 0.0),
        ("the smallest element", after.smallest, before.smallest, 0.0),
        ("the norm", after.norm, before.norm, NUMBERS_FLOOR * before.norm),
        ("the sum", after.total, before.total, NUMBERS_FLOOR * before.norm * math.sqrt(before.count)),
    ):
        measured = _difference(found, true, allowed, name)
        if measured.is_broken:
            return measured
    return Measured("statistics", False)


def _difference(found: float, true: float, allowed: float, detail: str = "") -> Measured:
    detail = f"{detail} {found:.6g} instead of {true:.6g}".strip()
    return _measured(abs(found - true), abs(true), allowed, detail)


def _measured(distance: float, size: float, allowed: float, detail: str = "") -> Measured:
    relative = distance / size if size else math.inf if distance else 0.0
    return Measured("statistics", distance > allowed, relative, allowed / size if size else 0.0, detail)


def _unit(leaf: TensorLeaf) -> float:
    precision: Precision | None = precision_of(leaf.dtype)
    return precision.unit if precision is not None else 0.0


def _smallest(leaf: TensorLeaf) -> float:
    precision = precision_of(leaf.dtype)
    return precision.smallest if precision is not None else 0.0
