"""Findings about arguments that are no tensors, with what is seen of their effect."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.figures import DIGITS_BY_HAND
from torchparity.comparing.judging.search.arguments import ArgumentDifference, NumbersRead, differing_arguments
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.records import ValueLeaf


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


def independent_argument(context: PartContext, record: JudgedRecord, numbers: NumbersRead) -> Finding | None:
    """Return an argument that differs for a reason of its own, of a call whose inputs an earlier finding explains.

    Numbers that a program reads out of tensors differ with them: where it has read any that differ, only texts, truth
    values and fractions of few digits, as people write them, tell of a difference of their own.
    """
    if record.direction != "forward" or not any(entry.deviation and entry.pair.is_argument for entry in record.items):
        return None
    may_follow = numbers.has_any or context.has_other_dtypes
    arguments = [
        argument
        for argument in differing_arguments(record, 0.0)
        if not argument.is_one_sided and (not may_follow or _is_written_by_hand(argument))
    ]
    if not arguments:
        return None
    chosen, explanation = arguments[0], "while its inputs differ already"
    return context.finding(Kind.ARGUMENT, record, chosen.item, values=chosen.values, explanation=explanation)


def _is_written_by_hand(argument: ArgumentDifference) -> bool:
    leaves = [side.leaf for side in (argument.item.candidate, argument.item.baseline) if side is not None]
    return all(isinstance(leaf, ValueLeaf) and _is_of_few_digits(leaf.value) for leaf in leaves)


def _is_of_few_digits(value: object) -> bool:
    if isinstance(value, (str, bool)):
        return True
    if not isinstance(value, float) or not math.isfinite(value) or value.is_integer():
        return False
    return float(f"{value:.{DIGITS_BY_HAND - 1}e}") == value


def _small_effect(context: PartContext, record: JudgedRecord) -> str:
    """Return in a clause the effect of an argument that no output shows beyond rounding."""
    if not record.returned:
        return "and nothing that it returns is recorded"
    if record.deviation == 0:
        return "without any effect: its output is equal"
    limit = "rounding" if context.limits.tolerance is None else "--tolerance"
    off = "" if record.deviation is None else f": its output is off by {record.deviation:.3g} relative"
    return f"with an effect within {limit}{off}"
