"""Items that are off by more than rounding although nobody is to blame: they keep the runs from being said to agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torchparity.comparing.judging.evidence.distances import distance, largest_distance, results_like, shape_of
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, is_mask, is_whole
from torchparity.comparing.judging.figures import (
    GAIN_OF_A_CALL,
    LARGEST_JUDGED_INPUT,
    MARGIN_OF_LARGE_INPUTS,
)
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.outputs import input_deviation
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.naming import backward_of, forward_of


class Unexplained(NamedTuple):
    """An item, how much of its deviation is explained, and by which records, if it is they who made it."""

    entry: ItemComparison
    explained: float = 0.0
    makers: tuple[str, ...] = ()


def unexplained_item(context: PartContext, record: JudgedRecord, limit: float) -> Unexplained | None:
    """Return an item that is off by more than `limit` and by what nothing explains.

    No result of forward may be, and of gradients and the optimizer none that is more than sums which cancel, and steps
    of noise, make of what is there. What a record received is held against those who made it.
    """
    is_forward = record.direction == "forward" and not context.is_in_backward(record)
    if context.is_container(record):  # the calls inside of it are judged, and what it hands out
        return _result_of_forward(context, record, limit) if is_forward else None
    own = _result_of_forward if is_forward else _beyond_what_it_received
    return _beyond_its_makers(context, record, limit) or own(context, record, limit)


def _result_of_forward(context: PartContext, record: JudgedRecord, limit: float) -> Unexplained | None:
    if record.passes_on and not context.is_container(record):
        return None
    far = list(_far_off(record.returned, limit))
    return Unexplained(max(far, key=lambda entry: entry.deviation or 0.0)) if far else None


def _far_off(entries: Iterable[ItemComparison], limit: float) -> Iterable[ItemComparison]:
    return (
        entry
        for entry in entries
        if entry.deviation is not None and entry.deviation > limit and not is_whole(entry) and not is_mask(entry)
    )


def _beyond_its_makers(context: PartContext, record: JudgedRecord, limit: float) -> Unexplained | None:
    """Return what a record received and is further off than those who made it, or gave its gradient, returned it."""
    is_gradient = record.direction == "parameters_grad"
    if not context.flow.is_recorded or (record.passes_on and record.direction == "backward"):
        return None
    for entry in _far_off(record.returned if is_gradient else record.received, limit):
        if context.flow.is_uninitialised(entry):
            continue  # what nobody wrote of it differs
        makers = _makers(context, record, entry)
        allowed = explained_by(makers, record, entry)
        if allowed is not None and (entry.deviation or 0.0) > allowed:
            return Unexplained(entry, allowed, tuple(_said(context, maker) for maker in makers))
    return None


def _said(context: PartContext, maker: JudgedRecord) -> str:
    """Return a record by its name, with its step if that is an earlier one."""
    if context.by_name.get(maker.name) is maker:
        return maker.name
    step = next(step for step, earlier in context.earlier.items() if earlier.by_name.get(maker.name) is maker)
    return f"step {step}, {maker.name}"


def _makers(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> list[JudgedRecord]:
    """Return the records that made an item, or gave the gradients that it is the sum of; none where one is unknown."""
    is_mine = context.flow.is_told_by_candidate(entry)
    told = [
        context.maker(origin) if is_mine or origin.kind == "record" else None
        for origin in context.flow.origins(entry)
        if origin.kind == "earlier" or (origin.kind == "record" and origin.name != record.name)
    ]
    makers = [maker for maker in told if maker is not None and not context.is_container(maker)]
    if makers and len(makers) == len(told):
        return makers
    return _givers(context, record) if record.direction == "backward" else []


def _givers(context: PartContext, record: JudgedRecord) -> list[JudgedRecord]:
    """Return the backward records of all that use what a backward record's forward call returned."""
    if context.has_gradients_alone and context.uses.alone(record):
        return []
    users = context.innermost(context.flow.consumers(forward_of(record.name)))
    givers = [context.by_name.get(backward_of(user)) for user in users]
    return [giver for giver in givers if giver is not None] if None not in givers else []


def explained_by(makers: Sequence[JudgedRecord], record: JudgedRecord, entry: ItemComparison) -> float | None:
    """Return how far an item may be off, by what its makers returned; None where nobody knows.

    What they are off by may be added up, and be large beside a sum that cancels.
    """
    own, total, largest = distance(entry), 0.0, 0.0
    for maker in makers:
        parts = _alike(maker, record, entry)
        moved = largest_distance(parts)
        if maker.passes_on or moved is None:
            return None
        total += moved
        largest = max([largest, *(part.deviation or 0.0 for part in parts)])
    if not makers or not own:
        return None
    return GAIN_OF_A_CALL * max(total / own * (entry.deviation or 0.0), largest)


def _alike(maker: JudgedRecord, record: JudgedRecord, entry: ItemComparison) -> list[ItemComparison]:
    """Return those of a maker's results that an item may be: of lists the same entry, else those of the same shape."""
    same = results_like(maker, shape_of(entry))
    if "._foreach_" in maker.name and "._foreach_" in record.name:
        place = entry.name.rpartition(".")[2]
        return [part for part in same if part.name.rpartition(".")[2] == place] or same
    return same


def _beyond_what_it_received(context: PartContext, record: JudgedRecord, limit: float) -> Unexplained | None:
    """Return a result that is off by more than the record makes of inputs which are too far off to judge it by."""
    if record.passes_on:
        return None
    for entry in _far_off(record.returned, limit):
        received = input_deviation(record, entry)
        if received <= LARGEST_JUDGED_INPUT:
            continue  # it was judged
        tolerance = context.expectations.of(record, entry).tolerance
        allowed = max(GAIN_OF_A_CALL * received, MARGIN_OF_LARGE_INPUTS * tolerance)
        if (entry.deviation or 0.0) > allowed:
            return Unexplained(entry, allowed)
    return None
