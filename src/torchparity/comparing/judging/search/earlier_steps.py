"""Findings about a call that one run alone made in an earlier step: it wrote what this step reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.records import Origin


class EarlierCall(NamedTuple):
    """A call without a partner, with the step that made it."""

    context: PartContext
    name: str
    is_candidates: bool


def earlier_call_alone(context: PartContext, mine: Sequence[Origin], other: Sequence[Origin]) -> EarlierCall | None:
    """Return the call of an earlier step that made an input in one run and has no partner in the other.

    `mine` made it in the candidate, `other` in the baseline.
    """
    for is_candidates, origins in ((True, mine), (False, other)):
        for origin in origins:
            step = context.context_of(origin) if origin.kind == "earlier" else None
            if step is not None and step.is_alone(origin.name, is_candidates=is_candidates):
                return EarlierCall(step, origin.name, is_candidates)
    return None


def of_earlier_call(context: PartContext, record: JudgedRecord, entry: ItemComparison, call: EarlierCall) -> Finding:
    """Return a finding about it: at the call, if it is the candidate's, else at the record that reads its result."""
    extra = call.context.candidates_alone(call.name) if call.is_candidates else None
    if extra is None or not extra.items:
        said = f"step {call.context.step}, {call.name}"
        return context.finding(Kind.CALL, record, entry, partner=call.name, sources=[said])
    returned = next((item for item in extra.items if not item.is_input), extra.items[0])
    reached = f"step {context.step}, {record.name}.{record.short_name(entry)}"
    return call.context.finding(
        Kind.CALL, extra, returned, partner=call.name, explanation=reached, deviation=entry.deviation
    )
