"""Findings about what a module hands out where a call that only one run makes is the last to touch it.

Nobody inside the module receives the result of such a call, so no input shows that it is off.
"""

from __future__ import annotations

import math

from torchparity.comparing.judging.evidence.beyond_numbers import shapes_of
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, is_mask, is_whole
from torchparity.comparing.judging.figures import GAIN_OF_A_CALL
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.inputs import is_beyond_ancestors
from torchparity.comparing.judging.search.other_sources import of_call_alone, only_in_one_run
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.records import Origin, TensorLeaf

_UNSEEN = ("outside", "unknown")


def handed_out_finding(context: PartContext, record: JudgedRecord, *, is_equal_so_far: bool) -> Finding | None:
    """Return the output of a module that those who made it do not explain, the one that is furthest off.

    `is_equal_so_far`: everything recorded before has the same bits in both runs.
    """
    if not record.is_module or record.direction != "forward" or not context.flow.is_recorded:
        return None
    findings = [
        found
        for entry in record.returned
        if entry.deviation and entry.deviation > (context.limits.tolerance or 0.0) and not is_mask(entry)
        for found in (
            _handed_out(context, record, entry),
            _unseen(context, record, entry) if is_equal_so_far else None,
        )
        if found is not None
    ]
    return max(findings, key=lambda found: found.deviation, default=None)


def other_form_finding(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return the output of an outermost module that has another shape, or the first where one run returns no tensor.

    Modules inside of others may return more or less, such as the weights of an attention that nobody takes.
    """
    if not record.is_module or record.direction != "forward" or context.part.parents.get(record.name) is not None:
        return None
    outputs = [entry for entry in record.items if not entry.is_input]
    for entry in outputs:
        if has_other_shape(entry.pair):
            return context.finding(Kind.SHAPE, record, entry, deviation=math.inf, values=shapes_of(entry))
        if entry.pair.replaces_tensor:
            return context.finding(Kind.SHAPE, record, entry, deviation=math.inf)
    mine = [entry for entry in outputs if entry.candidate is not None and entry.candidate.is_tensor]
    other = [entry for entry in outputs if entry.baseline is not None and entry.baseline.is_tensor]
    if bool(mine) == bool(other) or not context.keeps_outputs:
        return None
    values = ("nothing", "a tensor") if other else ("a tensor", "nothing")
    return context.finding(Kind.SHAPE, record, (mine or other)[0], deviation=math.inf, values=values)


def passes_on(context: PartContext, record: JudgedRecord) -> bool:
    """Tell whether a call returned what it received, in one of the runs."""
    sides = (
        (context.part.candidate, "candidate", record.name),
        (context.part.baseline, "baseline", record.baseline_name),
    )
    for part, side, name in sides:
        for entry in record.returned:
            leaf = getattr(entry, side).leaf
            origins = part.origins_of(leaf) if isinstance(leaf, TensorLeaf) else ()
            if origins and all(origin.kind != "record" or origin.name != name for origin in origins):
                return True
    return False


def _unseen(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return an output that no recorded call made, in one of the runs at least, and that differs."""
    if not context.is_container(record) or not record.has_equal_inputs:
        return None
    sides = (
        (context.flow.origins(entry), record.name),
        (context.flow.baseline_origins(entry), record.baseline_name),
    )
    is_unseen = any(
        origins and all(origin.kind in _UNSEEN or origin.name == name for origin in origins) for origins, name in sides
    )
    if not is_unseen or not entry.deviation or entry.deviation <= tolerance(entry.pair):
        return None
    return context.finding(Kind.UNRECORDED, record, entry)


def _handed_out(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    mine = _records(context.flow.origins(entry))
    other = _records(context.flow.baseline_origins(entry))
    if not mine or not other:
        return None
    made_by = [context.by_name.get(origin.name) for origin in mine]
    makers = [maker for maker in made_by if maker is not None and maker is not record]
    if any(maker.passes_on or maker.deviation is None for maker in makers):
        return None
    largest = max([record.input_deviation, *(maker.deviation or 0.0 for maker in makers)])
    if entry.deviation is None or entry.deviation <= tolerance(entry.pair) + GAIN_OF_A_CALL * largest:
        return None
    if is_whole(entry) and largest:
        return None  # whole numbers may be any where what they were chosen from differs at all
    alone = only_in_one_run(context, mine, other)
    if alone is not None:
        return of_call_alone(context, record, entry, alone) if is_beyond_ancestors(context, entry, alone) else None
    is_made_here = {origin.name == record.name for origin in mine} | {
        origin.name == record.baseline_name for origin in other
    }
    if is_made_here != {True, False}:
        return None  # both computed it here, or both passed it on: it is judged elsewhere
    return context.finding(Kind.OPERATOR, record, entry, expected=tolerance(entry.pair))


def _records(origins: tuple[Origin, ...]) -> list[Origin]:
    return [origin for origin in origins if origin.kind == "record"]
