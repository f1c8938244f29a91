"""Optimizers that take the same parameters in another order: their calls pair by number, and so say nothing."""

from __future__ import annotations

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.naming import OPTIMIZER


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
