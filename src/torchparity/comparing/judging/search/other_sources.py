"""Findings about an input that the two runs take from different places.

That is another call's result, another parameter, or what a call wrote that one run alone made in an earlier step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from torchparity.comparing.judging.evidence.beyond_numbers import beyond_numbers
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, is_whole
from torchparity.comparing.judging.evidence.parameter_order import known_parameters
from torchparity.comparing.judging.figures import GAIN_OF_A_CALL
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.naming import OPTIMIZER, is_module_name
from torchparity.records import Origin, Record, TensorLeaf
from torchparity.storage import RunPart

_NAMED = ("parameter", "buffer")
_COMPUTED = ("record", "earlier")
_OUTSIDE = "outside of the recording"


def text_of(origin: Origin) -> str:
    """Return an origin as a person reads it: `parameter fc.weight`, `Functional.linear.0.forward`."""
    if origin.kind == "record":
        return origin.name
    if origin.kind == "earlier":
        return f"step {origin.step}, {origin.name}"
    return f"{origin.kind} {origin.name}".strip()


def makers_of(origins: Sequence[Origin]) -> list[Origin]:
    """Return the calls among the origins of an item."""
    return [origin for origin in origins if origin.kind in _COMPUTED]


def other_parameter(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding where a call receives another parameter than its partner, and both runs have both.

    The calls of an optimizer take their parameters in an order of their own.
    """
    mine, other = _parameter(context.flow.origins(entry)), _parameter(context.flow.baseline_origins(entry))
    if mine == other or not mine or not other or context.part.parents.get(record.name) == OPTIMIZER:
        return None
    if mine not in known_parameters(context.part.baseline) and other not in known_parameters(context.part.candidate):
        return None  # the model has other names
    values = f"parameter {mine}", f"parameter {other}"
    return context.finding(Kind.ARGUMENT, record, entry, values=values)


def other_maker(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding where an input is the result of another call than in the baseline, and further off than both.

    Several writes, or sums of gradients, may have another order, and what was chosen may be any: they are not judged.
    """
    sources = _differing_sources(context, record, entry)
    if sources is None or entry.deviation is None:
        return None
    deviations = [None if pair.passes_on else pair.deviation for pair in sources.pairs]
    known = [deviation for deviation in deviations if deviation is not None]
    largest = max(known, default=0.0)
    if len(known) < len(deviations) or entry.deviation <= tolerance(entry.pair) + GAIN_OF_A_CALL * largest:
        return None
    if largest and (sources.are_several or context.is_in_backward(record) or is_whole(entry)):
        return None
    return context.finding(Kind.CALL, record, entry, values=sources.said)


def told_by_makers(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding where an input differs, all who made it agree, and in the baseline others made it."""
    sources = _differing_sources(context, record, entry)
    return None if sources is None else context.finding(Kind.CALL, record, entry, values=sources.said)


class _Sources(NamedTuple):
    """The pairs of records that made an input in either run, and where it comes from in both, in words."""

    pairs: Sequence[JudgedRecord]
    are_several: bool
    said: tuple[str, str]


def _differing_sources(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> _Sources | None:
    """Return who made an input where that are others in the baseline; None too where a call without a partner did."""
    if record.direction != "forward" or not context.flow.is_told_by_candidate(entry):
        return None
    mine, other = context.flow.origins(entry), context.flow.baseline_origins(entry)
    if any(origin.kind in ("uninitialised", "unknown") for origin in (*mine, *other)):
        return None
    here = [_pair(context, origin, is_candidates=True) for origin in makers_of(mine)]
    there = [_pair(context, origin, is_candidates=False) for origin in makers_of(other)]
    pairs = [pair for pair in (*here, *there) if pair is not None]
    if len(pairs) < len(here) + len(there) or set(map(id, here)) == set(map(id, there)):
        return None
    said = _place(mine, pairs[len(here) - 1]), _place(other, pairs[-1])
    return _Sources(pairs, len(mine) > 1 or len(other) > 1, said)


def _place(origins: Sequence[Origin], last: JudgedRecord) -> str:
    """Return where an item comes from: the last call that wrote it, by the candidate's name, if any did."""
    makers = makers_of(origins)
    if makers:
        return text_of(Origin(makers[-1].kind, last.name, makers[-1].step))
    return text_of(origins[0]) if origins and origins[0].kind in _NAMED else _OUTSIDE


def _parameter(origins: Sequence[Origin]) -> str:
    """Return the parameter that an item is, "" where it is none."""
    return origins[0].name if len(origins) == 1 and origins[0].kind == "parameter" else ""


def _pair(context: PartContext, origin: Origin, *, is_candidates: bool) -> JudgedRecord | None:
    at = context.context_of(origin)
    return None if at is None else at.paired(origin.name, is_candidates=is_candidates)


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
        found = context.finding(Kind.CALL, record, entry, partner=call.name, sources=[said])
        return msgspec.structs.replace(found, partner_run="the candidate" if call.is_candidates else "the baseline")
    return _at_call(call.context, extra, entry, f"step {context.step}, {record.name}.{record.short_name(entry)}")


def only_in_one_run(context: PartContext, mine: Sequence[Origin], other: Sequence[Origin]) -> str | None:
    """Return the record that made the input in one run and has no partner in the other."""
    for origin in mine:
        if origin.kind == "record" and origin.name not in context.by_name:
            return origin.name
    return next((origin.name for origin in other if origin.name not in context.paired_in_baseline), None)


def of_call_alone(context: PartContext, record: JudgedRecord, entry: ItemComparison, alone: str) -> Finding:
    """Return a finding about a call that only one run makes: at the call, if it is the candidate's."""
    extra = context.candidates_alone(alone)
    if extra is None or not extra.items:
        return context.finding(Kind.CALL, record, entry, partner=alone)
    return _at_call(context, extra, entry, f"{record.name}.{record.short_name(entry)}")


def _at_call(context: PartContext, extra: JudgedRecord, entry: ItemComparison, reached: str) -> Finding:
    """Return a finding at a call that only the candidate makes; its result is the item `entry`, by name `reached`."""
    returned = next((item for item in extra.items if not item.is_input), extra.items[0])
    found = context.finding(
        Kind.CALL, extra, returned, partner=extra.name, explanation=reached, deviation=entry.deviation
    )
    return msgspec.structs.replace(found, beyond_numbers=beyond_numbers(entry))


def view_finding(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding about an input that is another view, such as a slice, of what the same calls made.

    Who made a tensor is told past views, so they are known by their results: the last in time that has the same.
    """
    here, there = _view(context, entry, is_candidates=True), _view(context, entry, is_candidates=False)
    for view, is_candidates in ((here, True), (there, False)):
        if view is not None and view.context.is_alone(view.name, is_candidates=is_candidates):
            if view.context is context:
                return of_call_alone(context, record, entry, view.name)
            return of_earlier_call(context, record, entry, EarlierCall(view.context, view.name, is_candidates))
    pair = there.context.paired(there.name, is_candidates=False) if there is not None else None
    if here is None or there is None or pair is None or here.context is not context or there.context is not context:
        return None
    values = f"{here.name}.{here.item}", f"{pair.name}.{there.item}"
    return context.finding(Kind.CALL, record, entry, values=values) if values[0] != values[1] else None


class _View(NamedTuple):
    """A result of a call that is a view of what other calls made, with the step of the call."""

    context: PartContext
    name: str
    item: str


def _view(context: PartContext, entry: ItemComparison, *, is_candidates: bool) -> _View | None:
    side = entry.candidate if is_candidates else entry.baseline
    leaf = side.leaf if side is not None else None
    if not isinstance(leaf, TensorLeaf) or leaf.statistics is None or not leaf.statistics.norm:
        return None
    for at in (context, *(context.earlier[step] for step in sorted(context.earlier, reverse=True))):
        part = at.part.candidate if is_candidates else at.part.baseline
        for record in reversed(part.records.values()):
            item = _item_of_view(part, record, leaf) if record.direction == "forward" else None
            if item is not None and not is_module_name(record.name):
                return _View(at, record.name, item)
    return None


def _item_of_view(part: RunPart, record: Record, leaf: TensorLeaf) -> str | None:
    """Return the result of a call that a tensor is, if it is a view."""
    for item in record.items():
        if item.role == "output" and isinstance(item.leaf, TensorLeaf) and item.leaf.shape == leaf.shape:
            is_view = all(origin.name != record.name for origin in part.origins_of(item.leaf))
            if is_view and item.leaf.statistics == leaf.statistics:
                return item.name
    return None
