"""Facts that several findings show, such as an optimizer's setting that is passed to many calls: each told once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.naming import OPTIMIZER


def told_once(findings: Iterable[Finding]) -> list[Finding]:
    """Return each fact once, in the order of the first finding that shows it; `repeated_in` has the others' places.

    Where some findings have an effect, one of them stands for the fact.
    """
    groups: dict[Hashable, list[Finding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(_fact(finding) or number, []).append(finding)
    return [_with_repeats(group) for group in groups.values()]


def _fact(finding: Finding) -> Hashable | None:
    """Return what makes findings the same fact, None for one that stands for itself."""
    if finding.kind in (Kind.WEIGHTS, Kind.RANDOM):  # another checkpoint, another stream of random numbers
        return finding.kind
    if finding.kind is Kind.ARGUMENT:
        # An optimizer computes what it passes on from its settings anew in each step.
        values = None if finding.module == OPTIMIZER else finding.values
        return Kind.ARGUMENT, operator_of(finding.record), finding.item, values
    if finding.kind is Kind.MISSING_GRADIENT:
        return Kind.MISSING_GRADIENT, finding.record, finding.item, finding.rank
    if finding.kind is Kind.DATA and finding.module == OPTIMIZER:
        return Kind.DATA, finding.item
    return None


def _with_repeats(group: Sequence[Finding]) -> Finding:
    told = next((finding for finding in group if finding.is_shown), group[0])
    places = dict.fromkeys(_place(finding, told) for finding in group if finding is not told)
    places.pop(_place(told, told), None)
    return msgspec.structs.replace(told, repeated_in=tuple(places)) if places else told


def _place(finding: Finding, told: Finding) -> str:
    """Return the parameter that a finding names, or its record, with the step and rank if those are others."""
    if finding.kind is Kind.WEIGHTS and finding.sources:
        return finding.sources[0].partition(" ")[2] or finding.sources[0]
    if (finding.step, finding.rank) == (told.step, told.rank):
        return finding.record
    return f"step {finding.step}, rank {finding.rank}: {finding.record}"
