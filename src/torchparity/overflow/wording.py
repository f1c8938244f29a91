"""The sentences about an overflow; the first is that of run_overflow_check, word for word."""

from __future__ import annotations

import math

from torchparity.overflow.verdict import Finding, Verdict

_WIDER = {"float16": "bfloat16 or float32 hold it", "bfloat16": "float64 holds it", "float32": "float64 holds it"}


def headline(name: str, verdict: Verdict) -> str:
    """Return the verdict in one sentence."""
    article = "an" if verdict is Verdict.ABNORMAL else "a"
    return f"The {name} overflow is {article} {verdict.value} overflow."


def detail(finding: Finding) -> str:
    """Return where a tensor overflows, and how far its true values are from the largest number of its dtype."""
    place = "" if finding.first is None else f", the first at {list(finding.first)}"
    what = "are saturated" if finding.is_saturated else "are not finite"
    if finding.verdict is Verdict.ABNORMAL:
        what += " although their true values fit"
    elements = (
        f"{finding.count} of {finding.total} elements {what}{place}" if finding.count else "no element tells where"
    )
    return f"{finding.place}: {elements}; {head_room(finding)}"


def head_room(finding: Finding) -> str:
    """Return how far the true values are from the limit."""
    limit = f"the largest {finding.dtype} ({finding.limit:.6g})"
    if math.isnan(finding.largest):
        return "in float64 it is not finite either"
    if not finding.largest:
        return f"the true values are zero, far from {limit}"
    ratio = finding.largest / finding.limit
    true = f"the largest true value is {finding.largest:.4g}"
    if ratio > 1:
        wider = f"; {_WIDER[finding.dtype]}" if finding.dtype in _WIDER else ""
        return f"{true}, {ratio:.3g} times {limit}{wider}"
    if finding.verdict is Verdict.NORMAL and ratio < 0.9:
        return f"{true}, and in float64 others are not finite either"
    return f"{true}, with a head-room of {1 / ratio:.3g} to {limit}"
