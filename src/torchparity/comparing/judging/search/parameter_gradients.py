"""Findings about gradients of parameters, which come from no call of their own."""

from __future__ import annotations

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.figures import GAIN_OF_SUMS
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import tolerance
from torchparity.errors import RecordNameError
from torchparity.naming import backward_of, parse_record


def parameter_gradient_finding(context: PartContext, record: JudgedRecord) -> Finding | None:
    """Return a gradient of a parameter that the backward records of those who use it do not explain."""
    if not context.flow.is_recorded:
        return None
    for entry in record.returned:
        users = context.flow.users_of_parameter(_parameter(record, entry))
        sources = [context.by_name.get(backward_of(user)) for user in users]
        known = [source.deviation for source in sources if source is not None]
        if not entry.deviation or not users or len(known) < len(sources) or None in known:
            continue
        largest = max(deviation for deviation in known if deviation is not None)
        if entry.deviation > max(tolerance(entry.pair), GAIN_OF_SUMS * largest):
            return context.finding(Kind.UNRECORDED, record, entry, sources=[backward_of(user) for user in users])
    return None


def _parameter(record: JudgedRecord, entry: ItemComparison) -> str:
    """Return a parameter's name in the model: `fc.weight`."""
    try:
        path = parse_record(record.name).operator
    except RecordNameError:
        return ""
    item = record.short_name(entry)
    return f"{path}.{item}" if path else item
