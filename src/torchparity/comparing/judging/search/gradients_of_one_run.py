"""Findings about gradients that a call of one run alone changes: a loss that is divided, a loss that is added."""

from __future__ import annotations

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.figures import GAIN_OF_A_CALL
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.inputs import of_call_alone
from torchparity.comparing.judging.verdict import Finding
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.naming import backward_of


def gradient_of_one_run(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return the call of one run alone that makes a gradient differ, while the gradients of all other uses agree."""
    if record.is_module or not context.flow.is_recorded or not context.has_gradients_alone:
        return None
    alone = context.uses_alone(record)
    if not alone:
        return None
    largest = _largest_of_other_uses(context, record)
    for entry in record.received:
        if largest is not None and _is_beyond(context, entry, largest):
            return of_call_alone(context, record, entry, alone[0])
    return None


def _is_beyond(context: PartContext, entry: ItemComparison, largest: float) -> bool:
    if not entry.deviation or has_other_shape(entry.pair):
        return False
    allowed = tolerance(entry.pair) + GAIN_OF_A_CALL * largest
    return entry.deviation > max(allowed, context.limits.tolerance or 0.0)


def _largest_of_other_uses(context: PartContext, record: JudgedRecord) -> float | None:
    """Return how far the gradients are off that the uses of both runs returned; None where nobody can tell."""
    largest = 0.0
    for user in context.uses_paired(record):
        source = context.by_name.get(backward_of(user))
        if source is None or source.passes_on:
            continue  # a use under no_grad, or one whose users are uses too
        if source.deviation is None:
            return None
        largest = max(largest, source.deviation)
    return largest
