"""Findings about gradients of parameters, which come from no call of their own, and what an optimizer made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from torchparity.comparing.judging.evidence.cancellation import is_cancelled
from torchparity.comparing.judging.evidence.distances import distance, largest_distance, shape_of
from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.evidence.parameter_order import parameter_of
from torchparity.comparing.judging.figures import GAIN_OF_A_CALL, GAIN_OF_SUMS, MARGIN_OF_UNSEEN_BACKWARD
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.search.inputs import is_beyond_ancestors
from torchparity.comparing.judging.search.other_sources import of_call_alone, only_in_one_run
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.naming import OPTIMIZER, backward_of


def parameter_gradient_finding(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return a gradient of a parameter that the backward records of those who use it do not explain."""
    if not context.flow.is_recorded:
        return None
    for entry in record.returned:
        users = _users(context, parameter_of(record, entry))
        if not entry.deviation or not users or entry.deviation <= (context.limits.tolerance or 0.0):
            continue
        sources = [source for user in users if (source := context.by_name.get(backward_of(user))) is not None]
        if len(sources) == len(users):
            found = _of_records(context, record, entry, sources)
        else:
            found = _of_unseen_backward(context, record, entry, users)
        if found is not None:
            return found
    return None


def is_of_another_parameter(context: PartContext, record: JudgedRecord) -> bool:
    """Tell whether a call of an optimizer is one of those that take the parameters in another order."""
    return context.part.parents.get(record.name) == OPTIMIZER and context.takes_another_order


def weights_after_another_order(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return a weight that differs after an optimizer whose calls could not be compared."""
    for entry in record.received:
        if entry.deviation and entry.deviation > max(tolerance(entry.pair), context.limits.tolerance or 0.0):
            makers = [context.maker(origin) for origin in context.flow.origins(entry) if origin.kind == "earlier"]
            if any(maker is not None and maker.is_of_another_parameter for maker in makers):
                explanation = "after an optimizer that takes the parameters in another order"
                return context.finding(Kind.UNKNOWN, record, entry, explanation=explanation)
    return None


def _users(context: PartContext, parameter: str) -> list[str]:
    """Return the forward records that give a gradient to a parameter: not the optimizer, nor calls of backward."""
    return [
        user
        for user in context.flow.users_of_parameter(parameter)
        if context.part.parents.get(user) != OPTIMIZER
        and user not in context.containers
        and (backward_of(user) in context.by_name or not context.is_in_backward(context.by_name[user]))
    ]


def _of_records(
    context: PartContext, record: JudgedRecord, entry: ItemComparison, sources: Sequence[JudgedRecord]
) -> Finding | None:
    largest = _largest(source.deviation if source.returned else source.input_deviation for source in sources)
    if largest is None or not entry.deviation or entry.deviation <= max(tolerance(entry.pair), GAIN_OF_SUMS * largest):
        return None
    if all(source.is_module for source in sources) and _cancels(entry, sources):
        return None
    return _added_or_unrecorded(context, record, entry, sources)


def _cancels(entry: ItemComparison, modules: Sequence[JudgedRecord]) -> bool:
    """Tell whether a gradient is a sum of what modules received in backward, and off by no more than that makes it.

    Errors that a batch norm leaves have the same sign: n of them add up to sqrt(n) times their norm, by Cauchy and
    Schwarz. A bias has a single dimension; the gradient of a matrix is no such sum.
    """
    given = [received for module in modules for received in module.received]
    shape, moved, own = shape_of(entry), largest_distance(given), distance(entry)
    if is_cancelled(entry, given):
        return True
    if not isinstance(shape, tuple) or len(shape) != 1 or moved is None or own is None:
        return False
    sizes = [math.prod(size) for received in given if isinstance(size := shape_of(received), tuple)]
    return own <= math.sqrt(sum(sizes) / max(1, math.prod(shape))) * moved


def _added_or_unrecorded(
    context: PartContext, record: JudgedRecord, entry: ItemComparison, sources: Sequence[JudgedRecord]
) -> Finding:
    """Return the call of one run alone that adds to a gradient; where there is none, nothing recorded did."""
    alone = context.uses.alone_with_parameter(parameter_of(record, entry))
    if alone is not None:
        return of_call_alone(context, record, entry, alone)
    return context.finding(Kind.UNRECORDED, record, entry, sources=[source.name for source in sources])


def _of_unseen_backward(
    context: PartContext, record: JudgedRecord, entry: ItemComparison, users: Sequence[str]
) -> Finding | None:
    """Return a gradient that a backward made which is not recorded, such as that of an autograd.Function."""
    own = (record.name, record.baseline_name)  # stands for a maker that was not recorded
    mine, other = (
        [origin for origin in origins if origin.kind == "record" and origin.name not in own]
        for origins in (context.flow.origins(entry), context.flow.baseline_origins(entry))
    )
    alone = only_in_one_run(context, mine, other)
    if alone is not None:
        return of_call_alone(context, record, entry, alone) if is_beyond_ancestors(context, entry, alone) else None
    makers = [maker for origin in mine if (maker := context.maker(origin)) is not None]
    sources = makers or _gradients_behind(context, users)
    received = [context.by_name[user].input_deviation for user in users]
    largest = _largest([*(source.deviation for source in sources), *received])
    if not sources or largest is None or not entry.deviation:
        return None
    margin = 1.0 if makers else MARGIN_OF_UNSEEN_BACKWARD
    if entry.deviation <= margin * tolerance(entry.pair) + GAIN_OF_A_CALL * largest:
        return None
    if is_cancelled(entry, [returned for source in sources for returned in source.returned]):
        return None
    return _added_or_unrecorded(context, record, entry, sources)


def _gradients_behind(context: PartContext, users: Sequence[str]) -> list[JudgedRecord]:
    """Return the backward records that gave the gradient of what the users of a parameter returned."""
    after = dict.fromkeys(backward_of(name) for user in users for name in context.flow.consumers(user))
    records = [context.by_name[name] for name in after if name in context.by_name]
    return [record for record in records if not context.is_container(record)]


def _largest(deviations: Iterable[float | None]) -> float | None:
    known = list(deviations)
    return None if None in known else max((deviation for deviation in known if deviation is not None), default=0.0)
