"""Findings about what a record returned: more than rounding, from inputs that agree."""

from __future__ import annotations

import math
from typing import NamedTuple

from torchparity.comparing.judging.evidence.beyond_numbers import shapes_of
from torchparity.comparing.judging.evidence.cancellation import is_cancelled
from torchparity.comparing.judging.evidence.dtypes import coarser_unit
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.evidence.operators import (
    communicates,
    draws,
    rate_items,
    returns_raw_memory,
    rounds,
    writes_in_place,
)
from torchparity.comparing.judging.figures import LARGEST_JUDGED_INPUT, SMALLEST_GAIN
from torchparity.comparing.judging.search.choices import is_no_choice, is_other_choice
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.deviation import has_other_shape, least_deviation
from torchparity.comparing.measuring.item_comparison import ItemComparison, Reason
from torchparity.comparing.precision.facts import Expectation
from torchparity.comparing.precision.figures import SKETCH_FLOOR
from torchparity.records import TensorLeaf, ValueLeaf

_FAR_APART = "the values that it chose in the two runs are further apart than its inputs are off"
_NO_CHOICE = Expectation(0.0, 0.0, 0.0, "")


class _Excess(NamedTuple):
    """A deviation over what is allowed, and that."""

    ratio: float
    allowed: float

    @classmethod
    def of(cls, deviation: float, allowed: float) -> _Excess:
        return cls(deviation / allowed if allowed else math.copysign(math.inf, deviation), allowed)


def output_finding(context: PartContext, record: JudgedRecord, *, reads_raw_memory: bool) -> Finding | None:
    """Return the output that what the record received does not explain, with the kind of fault it is."""
    if not record.received and record.direction == "backward":
        return None  # nobody knows what it received
    if returns_raw_memory(record.name):
        return None
    other_form = next(filter(_has_other_dimensions, record.items), None)
    if other_form is not None:
        return context.finding(Kind.SHAPE, record, other_form, deviation=math.inf)
    one_sided = _one_sided_result(context, record)
    if one_sided is not None:
        return context.finding(Kind.OPERATOR, record, one_sided, deviation=math.inf)
    wrong: list[tuple[_Excess, ItemComparison, Expectation]] = []
    is_rounded = rounds(record.name)
    for entry in record.returned:
        if not entry.deviation or is_other_choice(context, record, entry):
            continue
        if is_no_choice(context, record, entry):
            if entry.deviation > (context.limits.tolerance or 0.0):
                wrong.append((_Excess(math.inf, 0.0), entry, _NO_CHOICE))
            continue
        received = input_deviation(record, entry)
        if entry.deviation <= SMALLEST_GAIN * received or received > LARGEST_JUDGED_INPUT:
            continue
        if is_rounded and entry.deviation <= coarser_unit(entry.pair):
            continue
        expectation = context.expectations.of(record, entry)
        if context.lacks_forward(record) and is_cancelled(entry, record.received):
            continue
        excess = _excess(context, entry, expectation)
        if excess.ratio > 1.0:
            wrong.append((excess, entry, expectation))
    if not wrong:
        return None
    excess, worst, expectation = max(wrong, key=lambda entry: (entry[0].ratio, entry[1].deviation or 0.0))
    kind = _kind(context, record, worst, reads_raw_memory=reads_raw_memory)
    unmeasured = next(filter(_is_unmeasured, record.received), None)
    if kind is Kind.OPERATOR and unmeasured is not None:
        explanation = f"after {record.short_name(unmeasured)}, whose numbers were not recorded"
        return context.finding(Kind.UNKNOWN, record, worst, explanation=explanation)
    values = shapes_of(worst) if kind is Kind.SHAPE else None
    return context.finding(
        kind,
        record,
        worst,
        expected=excess.allowed,
        expected_because=expectation.reason,
        values=values,
        explanation=_FAR_APART if expectation is _NO_CHOICE else "",
        is_certain=context.flow.is_recorded or record.has_equal_inputs,
    )


def _is_unmeasured(entry: ItemComparison) -> bool:
    """Tell whether nothing was recorded of a tensor's numbers, as of a sparse one."""
    leaves = [side.leaf for side in (entry.candidate, entry.baseline) if side is not None]
    return entry.deviation is None and any(
        isinstance(leaf, TensorLeaf) and (leaf.statistics, leaf.checksum, leaf.stored_in) == (None, None, None)
        for leaf in leaves
    )


def _excess(context: PartContext, entry: ItemComparison, expectation: Expectation) -> _Excess:
    deviation = entry.deviation or 0.0
    if context.limits.tolerance is not None:
        return _Excess.of(deviation, context.limits.tolerance)
    excess = _Excess.of(deviation, expectation.tolerance)
    if expectation.exact_tolerance >= expectation.tolerance or entry.candidate is None or entry.baseline is None:
        return excess
    least = least_deviation(entry.candidate.values(), entry.baseline) - SKETCH_FLOOR
    return max(excess, _Excess.of(least, expectation.exact_tolerance))


def _has_other_dimensions(entry: ItemComparison) -> bool:
    """Tell whether an output is a tensor of fewer or more dimensions than the baseline's."""
    if entry.is_input or not entry.pair.is_replaced or entry.candidate is None:
        return False
    return isinstance(entry.candidate.leaf, TensorLeaf) and entry.pair.replaces_tensor


def _one_sided_result(context: PartContext, record: JudgedRecord) -> ItemComparison | None:
    """Return the result of a call that returns tensors in one run and none in the other, from equal inputs.

    What writes in place, or communicates, may return nothing; tools differ in what they record.
    """
    if record.direction != "forward" or record.is_module or not record.received or not record.has_equal_inputs:
        return None
    parts = (context.part.candidate, context.part.baseline)
    if communicates(record.name) or writes_in_place(record.name) or parts[0].info.tool != parts[1].info.tool:
        return None
    outputs = [entry for entry in record.items if not entry.is_input]
    mine = [entry for entry in outputs if entry.candidate is not None and entry.candidate.is_tensor]
    other = [entry for entry in outputs if entry.baseline is not None and entry.baseline.is_tensor]
    return None if bool(mine) == bool(other) else (mine or other)[0]


def input_deviation(record: JudgedRecord, output: ItemComparison) -> float:
    """Return the largest deviation of what an output was computed from: in a list, of its own entries."""
    if "._foreach_" not in record.name:
        return record.input_deviation
    place = output.name.rpartition(".")[2]
    return max(
        (entry.deviation or 0.0 for entry in record.received if entry.name.rpartition(".")[2] == place), default=0.0
    )


def _kind(context: PartContext, record: JudgedRecord, entry: ItemComparison, *, reads_raw_memory: bool) -> Kind:
    if has_other_shape(entry.pair):
        return Kind.SHAPE
    if reads_raw_memory:
        return Kind.UNINITIALISED
    if _draws(context, record):
        return Kind.RANDOM
    if is_nonfinite(entry):
        return Kind.NONFINITE
    return Kind.OPERATOR


def is_nonfinite(entry: ItemComparison) -> bool:
    """Tell whether nan or inf stand on one side alone."""
    if entry.mismatched:
        return True
    if entry.deviation != math.inf or entry.checksums is not None or entry.reason is Reason.OTHER_SHAPE:
        return False
    return not has_other_shape(entry.pair) and entry.is_matched


def _draws(context: PartContext, record: JudgedRecord) -> bool:
    """Tell whether a call drew random numbers that can be others.

    Of one that computes much besides, such as attention, that is said only where nothing shows that both runs have the
    same seed.
    """
    if record.direction != "forward" or not draws(record.name):
        return False
    items = rate_items(record.name)
    if items is None:
        return True
    if context.has_same_seed:
        return False
    rates = [
        entry.baseline.leaf.value
        for entry in record.items
        if entry.baseline is not None
        and isinstance(entry.baseline.leaf, ValueLeaf)
        and record.short_name(entry) in items
    ]
    return any(isinstance(rate, (int, float)) and rate > 0 for rate in rates)
