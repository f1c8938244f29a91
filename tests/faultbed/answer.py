"""The comparison's answer to a pair of runs, and the answer of msprobe's rule beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torchparity
from tests.faultbed.truth import is_among
from torchparity import Comparison

_OLDER = {"unpaired": "another model", "gap": "unrecorded step"}


class Said(NamedTuple):
    """The kind, the record and its step as the comparison names them, "" and -1 where it names none."""

    kind: str
    record: str
    headline: str
    step: int


def said(comparison: Comparison) -> Said:
    """Return what the comparison says; its verdict where it has one."""
    verdict = getattr(comparison, "verdict", None)
    if verdict is not None:
        first = verdict.first
        kind = str(getattr(verdict.kind, "value", verdict.kind))
        return Said(kind, first.record if first else "", comparison.headline(), first.step if first else -1)
    divergence, headline = comparison.first_divergence, comparison.headline()
    if divergence is None:
        return Said("agree", "", headline, -1)
    step = re.match(r"step (\d+)", headline)
    return Said(_OLDER.get(divergence.kind, divergence.kind), divergence.record, headline, int(step[1]) if step else 0)


def first_no(comparison: Comparison) -> tuple[str, int]:
    """Return the record and step of the first row, in the order of the tables, that msprobe's rules call wrong."""
    for part in comparison.parts:
        for entry, judgement in zip(part.comparisons, part.judgements, strict=True):
            if judgement.verdict in ("No", "Warning"):
                return entry.record, part.step
    return "", -1


def answer(
    candidate: Path, baseline: Path, records: frozenset[str], kinds: frozenset[str], step: int
) -> dict[str, object]:
    """Compare two runs and return what is said, and what of it is right."""
    comparison = torchparity.compare(candidate, baseline)
    kind, record, headline, said_step = said(comparison)
    rule, rule_step = first_no(comparison)
    record_right = is_among(record, said_step, records, step)
    return {
        "said_kind": kind,
        "said_record": record,
        "said_step": said_step,
        "headline": headline,
        "named": record_right and kind in kinds,
        "record_right": record_right,
        "kind_right": kind in kinds,
        "rule_record": rule,
        "rule_right": is_among(rule, rule_step, records, step),
    }
