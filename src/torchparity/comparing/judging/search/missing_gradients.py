"""Findings about gradients that come in one run alone: a detached branch, a frozen weight, a lost gradient."""

from __future__ import annotations

from collections.abc import Sequence

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, are_tensors
from torchparity.comparing.judging.evidence.parameter_order import known_parameters, parameter_of, stepped_parameters
from torchparity.comparing.judging.search.arguments import differing_arguments
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.gradients_of_one_run import gradients_agree_in_the_end
from torchparity.comparing.judging.search.last_writes import last_reader
from torchparity.comparing.judging.search.other_sources import text_of
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import Side
from torchparity.comparing.pairing.optimizer_calls import takes_lists
from torchparity.naming import OPTIMIZER, forward_of, is_parameter_gradient
from torchparity.records import TensorLeaf

_SIDES = ("the candidate", "the baseline")


def missing_gradient(context: PartContext, parted: Sequence[int]) -> Finding | None:
    """Return the first place where one run lacks a gradient that the other has.

    That is the backward record that returns it in one run alone; where there is none, the forward record from which on
    one run asks for no gradient. A gradient that is None when the optimizer looks for it shows in its calls alone.
    Where the runs part in forward, at one of the positions `parted`, a parameter that gets no gradient follows from it.
    """
    found = _missing(context)
    if found is not None and not _all_parameters_get_theirs(context):
        return found
    left = _parameter_without_a_step(context)
    if left is not None and not is_parameter_gradient(left.record) and any(map(context.is_before_backward, parted)):
        return None
    return left


def _missing(context: PartContext) -> Finding | None:
    lost = _first_one_sided(context)
    if lost is not None:
        return _lost(context, *lost)
    if not any(entry.record.direction == "backward" for entry in context.alone):
        return None
    for record in context.records:
        if record.direction == "forward" and not record.passes_on and record.name not in context.containers:
            entry = next((entry for entry in record.items if _asks_in_one_run(entry)), None)
            if entry is not None:
                explanation = _not_asked(context, record, entry)
                return context.finding(Kind.MISSING_GRADIENT, record, entry, explanation=explanation)
    return None


def _all_parameters_get_theirs(context: PartContext) -> bool:
    """Tell whether both runs have the gradients of all parameters, and the same: backward may run otherwise."""
    is_alone = any(entry.record.direction == "parameters_grad" for entry in context.alone)
    return not is_alone and gradients_agree_in_the_end(context)


def _parameter_without_a_step(context: PartContext) -> Finding | None:
    """Return the first parameter that the optimizer of one run steps and that of the other leaves as it is."""
    if not context.flow.is_recorded or not (context.alone or _has_other_lists(context)):
        return None
    parts = (context.part.candidate, context.part.baseline)
    mine, other = map(stepped_parameters, parts)
    if not mine or not other or mine == other:
        return None
    for without, names, part in zip(_SIDES, (other - mine, mine - other), parts, strict=True):
        left = names & known_parameters(part)
        place = _place_of(context, left)
        if place is not None:
            record, entry, name = place
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            why = "has no gradient there, or was not given to it"
            explanation = f"{without}'s optimizer steps without parameter {name}{more}, which {why}"
            return context.finding(Kind.MISSING_GRADIENT, record, entry, explanation=explanation)
    return None


def _has_other_lists(context: PartContext) -> bool:
    """Tell whether a call of an optimizer on lists has a longer one in one run."""
    return any(
        entry.candidate is None or entry.baseline is None
        for record in context.records
        if takes_lists(record.name) and context.part.parents.get(record.name) == OPTIMIZER
        for entry in record.items
    )


def _place_of(context: PartContext, parameters: set[str]) -> tuple[JudgedRecord, ItemComparison, str] | None:
    """Return the record of the gradient of one of the parameters, else the last that received it."""
    for record in context.records:
        if record.direction == "parameters_grad":
            for entry in record.items:
                if (name := parameter_of(record, entry)) in parameters:
                    return record, entry, name
    found = [(*reader, name) for name in sorted(parameters) if (reader := last_reader(context, name)) is not None]
    return min(found, key=lambda place: place[0].position, default=None)


def _first_one_sided(context: PartContext) -> tuple[JudgedRecord, ItemComparison] | None:
    """Return the first gradient that a backward record returned in one run alone."""
    for record in context.records:
        if record.direction != "backward" or record.is_module or record.passes_on:
            continue
        forward = context.by_name.get(forward_of(record.name))
        if forward is not None and forward.passes_on:
            continue
        for entry in record.items:
            if not entry.is_input and not are_tensors(entry) and (_is_tensor(entry.candidate, entry.baseline)):
                return record, entry
    return None


def _is_tensor(*sides: Side | None) -> bool:
    return any(side is not None and isinstance(side.leaf, TensorLeaf) for side in sides)


def _asks_in_one_run(entry: ItemComparison) -> bool:
    if not are_tensors(entry) or entry.candidate is None or entry.baseline is None:
        return False
    mine, other = entry.candidate.leaf, entry.baseline.leaf
    if not isinstance(mine, TensorLeaf) or not isinstance(other, TensorLeaf):
        return False
    return None not in (mine.requires_grad, other.requires_grad) and mine.requires_grad != other.requires_grad


def _not_asked(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> str:
    """Return in a clause which run asks for no gradient of an item, and who made it."""
    mine = entry.candidate.leaf if entry.candidate is not None else None
    asks = isinstance(mine, TensorLeaf) and mine.requires_grad
    without, having = _SIDES[::-1] if asks else _SIDES
    origins = context.flow.origins(entry) if entry.is_input else ()
    made_by = ""
    if origins:
        last = origins[-1]
        is_made = last.kind in ("record", "earlier")
        made_by = f", which {text_of(last)} made," if is_made else f", {text_of(last)},"
    return f"{record.short_name(entry)}{made_by} needs no gradient in {without} and does in {having}"


def _lost(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding:
    having = _SIDES[0] if _is_tensor(entry.candidate) else _SIDES[1]
    explanation = f"only {having} returns {record.short_name(entry)}"
    forward = context.by_name.get(forward_of(record.name))
    arguments = differing_arguments(forward, 0.0) if forward is not None else []
    if forward is not None and arguments:
        chosen, effect = arguments[0], "and so a gradient is missing"
        return context.finding(Kind.ARGUMENT, forward, chosen.item, values=chosen.values, explanation=effect)
    for received in forward.items if forward is not None else ():
        if received.is_input and _asks_in_one_run(received) and forward is not None:
            explanation = _not_asked(context, forward, received)
            break
    return context.finding(Kind.MISSING_GRADIENT, record, entry, explanation=explanation)
