"""Findings about what a record received: weights, data, another call's result, a step that was not recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.judging.evidence.beyond_numbers import shapes_of
from torchparity.comparing.judging.evidence.dtypes import coarser_unit
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, are_tensors, is_differentiated, is_whole
from torchparity.comparing.judging.figures import (
    GAIN_OF_A_CALL,
    MARGIN_OF_UNSEEN_BACKWARD,
    SMALLEST_SHOWN,
    UNITS_OF_COPIES,
)
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.known_gain import deviation_behind, is_of_unrecorded_training
from torchparity.comparing.judging.search.other_sources import (
    earlier_call_alone,
    makers_of,
    of_call_alone,
    of_earlier_call,
    only_in_one_run,
    other_maker,
    other_parameter,
    text_of,
    told_by_makers,
    view_finding,
)
from torchparity.comparing.judging.search.unexplained import explained_by
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.numbers import is_number
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.comparing.pairing.items import Side
from torchparity.naming import backward_of, forward_of, is_module_name, is_parameter_gradient
from torchparity.records import Origin, TensorLeaf


def input_finding(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return the input that nobody who made it explains, the one that is furthest off."""
    findings = [
        found
        for entry in record.received
        if entry.deviation
        and entry.deviation > (context.limits.tolerance or 0.0)
        and (found := _input(context, record, entry)) is not None
    ]
    return max(findings, key=lambda found: found.deviation, default=None)


def _input(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    if record.direction == "backward":
        return _gradient(context, record, entry)
    origins = context.flow.origins(entry)
    if not origins or all(origin.kind == "unknown" for origin in origins):
        return _by_content(context, record, entry)
    makers = makers_of(origins)
    if makers:
        return _computed(context, record, entry, makers)
    if any(origin.kind == "uninitialised" for origin in origins) or not is_more_than_a_copy(entry):
        return None
    return (
        _computed_in_baseline(context, record, entry)
        or other_parameter(context, record, entry)
        or _never_computed(context, record, entry, origins)
    )


def _computed_in_baseline(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding where calls of the baseline made an input that nobody made in the candidate."""
    other = context.flow.baseline_origins(entry)
    if not makers_of(other) or not context.flow.is_told_by_candidate(entry):
        return None
    alone = only_in_one_run(context, (), [origin for origin in other if origin.kind == "record"])
    if alone is not None:
        return of_call_alone(context, record, entry, alone) if is_beyond_ancestors(context, entry, alone) else None
    earlier = earlier_call_alone(context, (), other)
    if earlier is not None:
        is_beyond = is_beyond_ancestors(context, entry, earlier.name, earlier.context)
        return of_earlier_call(context, record, entry, earlier) if is_beyond else None
    return other_maker(context, record, entry)


def _never_computed(
    context: PartContext, record: JudgedRecord, entry: ItemComparison, origins: Sequence[Origin]
) -> Finding | None:
    """Return a finding about weights or data that no recorded call made."""
    sources = list(map(text_of, origins))
    if has_other_shape(entry.pair):
        return context.finding(Kind.SHAPE, record, entry, sources=sources, values=shapes_of(entry))
    if origins[0].kind == "outside" and is_differentiated(entry):
        return context.finding(Kind.UNRECORDED, record, entry)  # a call that was not recorded computed it
    if origins[0].kind == "parameter" and is_of_unrecorded_training(context, entry, origins[0].name):
        return None
    kind = Kind.DATA if origins[0].kind == "outside" else Kind.WEIGHTS
    return context.finding(kind, record, entry, sources=sources)


def _computed(
    context: PartContext, record: JudgedRecord, entry: ItemComparison, makers: Sequence[Origin]
) -> Finding | None:
    """Return a finding where those who made an input agree and the input does not."""
    sources = [text_of(origin) for origin in makers]
    other = [origin for origin in context.flow.baseline_origins(entry) if origin.kind == "record"]
    alone = only_in_one_run(context, makers, other)
    if alone is not None:
        if is_beyond_ancestors(context, entry, alone):
            added = context.adding_to_gradient(entry) if is_parameter_gradient(alone) else None
            return of_call_alone(context, record, entry, added or alone)
        return None
    earlier = earlier_call_alone(context, makers, context.flow.baseline_origins(entry))
    if earlier is not None:
        is_beyond = is_beyond_ancestors(context, entry, earlier.name, earlier.context)
        return of_earlier_call(context, record, entry, earlier) if is_beyond else None
    if any(origin.kind == "earlier" and origin.step not in context.earlier for origin in makers):
        return _from_unseen_step(context, record, entry, sources)
    records = [context.maker(origin) for origin in makers]
    if any(maker is None or maker.deviation != 0 or maker.passes_on for maker in records):
        return other_maker(context, record, entry) or _other_view(context, record, entry, records)
    if any(maker is not None and _counts_nothing(maker) and not _received_equals(maker) for maker in records):
        return None
    if context.flow.is_uninitialised(entry):
        return None  # what nobody wrote of it differs
    if not _is_shown_by_the_whole(entry, [maker for maker in records if maker is not None]):
        return None
    if entry.deviation is None or entry.deviation <= tolerance(entry.pair):
        return None  # autograd adds gradients of several uses up in place, in any order
    added = context.adding_to_gradient(entry)
    if added is not None:
        return of_call_alone(context, record, entry, added)
    return (
        told_by_makers(context, record, entry)
        or view_finding(context, record, entry)
        or context.finding(Kind.UNRECORDED, record, entry, sources=sources)
    )


def _other_view(
    context: PartContext, record: JudgedRecord, entry: ItemComparison, makers: Sequence[JudgedRecord | None]
) -> Finding | None:
    """Return a finding about another view of what its makers made, where that is further off than they explain."""
    known = [maker for maker in makers if maker is not None]
    if len(known) < len(makers) or context.is_in_backward(record) or is_whole(entry):
        return None
    allowed = explained_by(known, record, entry) if entry.deviation != math.inf else 0.0
    is_beyond = allowed is not None and (entry.deviation or 0.0) > allowed + tolerance(entry.pair)
    return view_finding(context, record, entry) if is_beyond else None


def _from_unseen_step(
    context: PartContext, record: JudgedRecord, entry: ItemComparison, sources: Sequence[str]
) -> Finding | None:
    """Return a finding about what a step left behind that is not compared."""
    if entry.deviation is None or entry.deviation <= tolerance(entry.pair):
        return None
    names = [origin for origin in context.flow.origins(entry) if origin.kind in ("parameter", "buffer")]
    if not names:
        return context.finding(Kind.UNRECORDED, record, entry, sources=sources)
    return context.finding(Kind.WEIGHTS, record, entry, sources=[*map(text_of, names), *sources])


def is_raw_memory(context: PartContext, entry: ItemComparison) -> bool:
    """Tell whether an item holds memory that nobody has written: all of it, or what those who wrote a part left.

    That is so where they wrote the same in both runs, from the same inputs.
    """
    origins = context.flow.origins(entry)
    if not any(origin.kind == "uninitialised" for origin in origins):
        return False
    makers = [context.maker(origin) for origin in origins if origin.kind in ("record", "earlier")]
    return all(maker is None or (maker.deviation == 0 and _received_equals(maker)) for maker in makers)


def is_beyond_ancestors(
    context: PartContext, entry: ItemComparison, alone: str, home: PartContext | None = None
) -> bool:
    """Tell whether an input is further off than a call in one run alone makes of what it was computed from.

    `home` is the step that made the call, if it is an earlier one. Numbers that were chosen, such as indices, may be
    any if what they were chosen from differs at all.
    """
    deviations = [maker.deviation for maker in (home or context).ancestors(alone)]
    if None in deviations or (any(deviations) and not coarser_unit(entry.pair)):
        return False
    known = deviation_behind(context, entry, alone, home or context)
    if known is not None:
        return entry.deviation is not None and entry.deviation > known
    largest = max((deviation for deviation in deviations if deviation is not None), default=0.0)
    return entry.deviation is not None and entry.deviation > tolerance(entry.pair) + GAIN_OF_A_CALL * largest


def _counts_nothing(maker: JudgedRecord) -> bool:
    """Tell whether a record returned nothing to compare: it wrote in place."""
    return not any(not entry.is_input and are_tensors(entry) for entry in maker.items)


def _received_equals(maker: JudgedRecord) -> bool:
    """Tell whether all tensors that a record received are known to be equal."""
    return all(entry.deviation == 0 for entry in maker.items if entry.is_input and are_tensors(entry))


def _is_shown_by_the_whole(entry: ItemComparison, makers: Sequence[JudgedRecord]) -> bool:
    """Tell whether the statistics of what was made would show the difference, if it had been there."""
    if entry.metrics is not None or entry.checksums is not None:
        return True
    mine = entry.baseline.values()[3] if entry.baseline is not None else None
    outputs = [entry.baseline for maker in makers for entry in maker.items if not entry.is_input]
    norms = [side.values()[3] for side in outputs if side is not None]
    largest = max((abs(norm) for norm in norms if is_number(norm) and math.isfinite(norm)), default=0.0)
    if not isinstance(mine, (int, float)) or not largest or entry.deviation is None:
        return True
    if mine == 0:  # nothing is relative to zero: all that the candidate has there is the difference
        return entry.candidate is not None and _norm_of(entry.candidate) > SMALLEST_SHOWN * largest
    return bool(entry.deviation * abs(mine) > SMALLEST_SHOWN * largest)


def _norm_of(side: Side) -> float:
    norm = side.values()[3]
    return abs(norm) if isinstance(norm, (int, float)) else math.inf


def _gradient(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding where a gradient differs that agreed when those who use the output returned it."""
    if has_other_shape(entry.pair):
        return None
    users = context.innermost(context.flow.consumers(forward_of(record.name))) if context.flow.is_recorded else ()
    sources = [context.by_name.get(backward_of(user)) for user in users]
    if not users:
        return _given_gradient(context, record, entry)
    known = [source for source in sources if source is not None]  # a use under no_grad gives no gradient
    if any(source.deviation != 0 or source.passes_on or _counts_nothing(source) for source in known):
        return None
    is_seen = len(known) == len(sources) and not record.is_module  # calls between modules are not recorded
    margin = 1.0 if is_seen else MARGIN_OF_UNSEEN_BACKWARD
    if entry.deviation is None or entry.deviation <= margin * tolerance(entry.pair):
        return None  # autograd may add the same gradients in another order
    mine, other = context.flow.origins(entry), context.flow.baseline_origins(entry)
    alone = only_in_one_run(context, mine, [origin for origin in other if origin.kind == "record"])
    if alone is not None:
        return context.finding(Kind.CALL, record, entry, partner=alone)
    return context.finding(Kind.UNRECORDED, record, entry, sources=[backward_of(user) for user in users])


def _given_gradient(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding where the first gradient that differs was returned by no recorded call.

    Backward was given another one, or what computed it is not recorded.
    """
    if not context.flow.is_recorded:
        return None if record.is_module else _by_content(context, record, entry)
    forward = context.by_name.get(forward_of(record.name))
    if record is not context.first_unequal_gradient or forward is None or forward.deviation is None:
        return None
    allowed = MARGIN_OF_UNSEEN_BACKWARD * tolerance(entry.pair) + GAIN_OF_A_CALL * forward.deviation
    if entry.deviation is None or entry.deviation <= allowed:
        return None
    return context.finding(Kind.UNRECORDED, record, entry)


def _by_content(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Finding | None:
    """Return a finding in a run that tells no data flow: inputs are matched by content, and gaps are guessed."""
    if entry.deviation is None or entry.deviation <= tolerance(entry.pair):
        return None
    makers = [context.by_name[name] for name in context.flow.producers(entry) if name in context.by_name]
    makers = [maker for maker in makers if maker.position < record.position]
    if any(maker.deviation != 0 for maker in makers):
        return None
    was_computed = bool(makers) or context.flow.was_computed_alone(entry, context.alone)
    kind = _kind_by_content(context, record, entry)
    if was_computed or record.direction != "forward" or (kind is Kind.DATA and context.is_in_backward(record)):
        kind = Kind.UNRECORDED
    alone = context.alone_before(record)
    if kind is not Kind.WEIGHTS and alone is not None:
        return context.finding(Kind.CALL, record, entry, partner=alone, is_certain=False)
    return context.finding(kind, record, entry, sources=[maker.name for maker in makers], is_certain=False)


def _kind_by_content(context: PartContext, record: JudgedRecord, entry: ItemComparison) -> Kind:
    leaf = entry.baseline.leaf if entry.baseline is not None else None
    if entry.role == "parameters":
        return Kind.WEIGHTS
    if not isinstance(leaf, TensorLeaf) or not leaf.requires_grad:
        return Kind.DATA
    if is_module_name(record.name) and record.position:
        return Kind.UNRECORDED  # its weights are its parameters; what else needs a gradient was computed
    return Kind.WEIGHTS


def is_more_than_a_copy(entry: ItemComparison) -> bool:
    """Tell whether two tensors from outside differ by more than the rounding of a copy."""
    if entry.deviation is None:
        return False
    smallest = UNITS_OF_COPIES * coarser_unit(entry.pair)
    is_float = smallest > 0
    return entry.deviation > (max(smallest, SMALLEST_SHOWN) if is_float and entry.metrics is None else smallest)
