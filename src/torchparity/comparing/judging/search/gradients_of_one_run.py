"""Findings about gradients that a call of one run alone changes: a loss that is divided, a loss that is added."""

from __future__ import annotations

from enum import Enum

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, are_tensors, has_tensor
from torchparity.comparing.judging.figures import GAIN_OF_A_CALL, MARGIN_OF_UNSEEN_BACKWARD
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.other_sources import of_call_alone
from torchparity.comparing.judging.verdict import Finding
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.naming import OPTIMIZER, backward_of


class Excuse(Enum):
    """A reason why a gradient may differ after a call of one run alone."""

    UNDONE = "the gradients that parameters get in the end agree, as after a loss that is scaled"
    SHARED = "the forward call has a twin in one run alone, and each has a part of the gradient"


def excuse_of_gradient(context: PartContext, record: JudgedRecord) -> Excuse | None:
    """Return why a gradient that a call of one run alone changes says nothing; None where nothing excuses it."""
    if record.direction != "backward":
        return None
    found = gradient_of_one_run(context, record)
    if found is None:
        return None
    if gradients_agree_in_the_end(context, found.deviation):
        return Excuse.UNDONE
    return Excuse.SHARED if context.uses.has_twin_alone(record) else None


def gradients_agree_in_the_end(context: PartContext, deviation: float = 0.0) -> bool:
    """Tell whether what the optimizer received agrees; where none is recorded, the gradients of parameters.

    `deviation`: how far gradients were off on the way there.
    """
    parents, others = context.part.candidate.construct, context.part.baseline.construct
    received = [record for record in context.records if parents.get(record.name) == OPTIMIZER]
    is_alone = any(
        (parents if entry.is_candidates else others).get(entry.record.name) == OPTIMIZER for entry in context.alone
    )
    if not received and not is_alone:
        received = [record for record in context.records if record.direction == "parameters_grad"]
        is_alone = any(entry.record.direction == "parameters_grad" for entry in context.alone)
    entries = [
        entry
        for record in received
        for entry in record.items
        if has_tensor(entry) and (entry.is_input or record.direction == "parameters_grad")
    ]
    return bool(entries) and not is_alone and all(_is_small_beside(entry, deviation) for entry in entries)


def _is_small_beside(entry: ItemComparison, deviation: float) -> bool:
    """Tell whether an item is off by rounding, and by far less than another was."""
    if entry.deviation is None or not are_tensors(entry):
        return False
    allowed = tolerance(entry.pair)
    return entry.deviation <= max(allowed, min(deviation / GAIN_OF_A_CALL, MARGIN_OF_UNSEEN_BACKWARD * allowed))


def gradient_of_one_run(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return the call of one run alone that makes a gradient differ, while the gradients of all other uses agree."""
    if record.is_module or not context.flow.is_recorded or not context.has_gradients_alone:
        return None
    alone = context.uses.alone(record)
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
    for user in context.uses.paired(record):
        source = context.by_name.get(backward_of(user))
        if source is None or source.passes_on:
            continue  # a use under no_grad, or one whose users are uses too
        if source.deviation is None:
            return None
        largest = max(largest, source.deviation)
    return largest
