"""Findings about arguments that are no tensors, with what is seen of their effect."""

from __future__ import annotations

from collections.abc import Sequence

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.search.arguments import ArgumentDifference
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind


def argument_finding(
    context: PartContext,
    record: JudgedRecord,
    arguments: Sequence[ArgumentDifference],
    returned: Finding | None,
    *,
    is_shown: bool = False,
) -> Finding | None:
    """Return the argument that differs; one that only one run passes is news only where the result differs.

    `returned` is the finding about what the record returned, if there is one: its cause is the argument.
    """
    certain = [argument for argument in arguments if not argument.is_one_sided]
    if record.deviation == 0 and (returned is None and not certain):
        return None
    chosen = (certain or list(arguments))[0]
    has_effect = returned is not None or (is_shown and record.deviation != 0)
    return context.finding(
        Kind.ARGUMENT,
        record,
        chosen.item,
        values=chosen.values,
        expected=returned.expected if returned is not None else 0.0,
        explanation="" if has_effect else _small_effect(context, record),
        is_shown=has_effect,
    )


def _small_effect(context: PartContext, record: JudgedRecord) -> str:
    """Return in a clause the effect of an argument that no output shows beyond rounding."""
    if not record.returned:
        return "and nothing that it returns is recorded"
    if record.deviation == 0:
        return "without any effect: its output is equal"
    limit = "rounding" if context.limits.tolerance is None else "--tolerance"
    off = "" if record.deviation is None else f": its output is off by {record.deviation:.3g} relative"
    return f"with an effect within {limit}{off}"
