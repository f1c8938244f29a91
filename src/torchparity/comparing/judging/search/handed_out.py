"""Findings about what a module hands out where a call that only one run makes is the last to touch it.

Nobody inside the module receives the result of such a call, so no input shows that it is off.
"""

from __future__ import annotations

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, is_mask, is_whole
from torchparity.comparing.judging.figures import GAIN_OF_A_CALL
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.inputs import (
    is_beyond_ancestors,
    of_call_alone,
    only_in_one_run,
)
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.records import Origin


def handed_out_finding(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return the output of a module that those who made it do not explain, the one that is furthest off."""
    if not record.is_module or record.direction != "forward" or not context.flow.is_recorded:
        return None
    findings = [
        found
        for entry in record.returned
        if entry.deviation
        and entry.deviation > (context.limits.tolerance or 0.0)
        and not is_whole(entry)
        and not is_mask(entry)
        and (found := _handed_out(context, record, entry)) is not None
    ]
    return max(findings, key=lambda found: found.deviation, default=None)


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
