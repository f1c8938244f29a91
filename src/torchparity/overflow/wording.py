"""The sentences about an overflow; the first is that of run_overflow_check, word for word."""

from __future__ import annotations

import math

from torchparity.overflow.verdict import Finding, Verdict

_WIDER = (("bfloat16 or float32 hold", 3.3895e38), ("float32 holds", 3.4028e38), ("float64 holds", math.inf))


def headline(name: str, verdict: Verdict) -> str:
    """Return the verdict in one sentence."""
    if verdict is Verdict.NONE:
        return f"The {name} overflow is not seen again."
    article = "an" if verdict is Verdict.ABNORMAL else "a"
    return f"The {name} overflow is {article} {verdict.value} overflow."


def detail(finding: Finding) -> str:
    """Return where a tensor overflows, and how far its true values are from the largest number of its dtype."""
    place = "" if finding.first is None else f", the first at {list(finding.first)}"
    what = "saturated" if finding.is_saturated else "not finite"
    if finding.verdict is Verdict.ABNORMAL:
        what += " although their true values fit"
    elements = f"{finding.count} of {finding.total} elements {what}{place}" if finding.count else "no element is off"
    return f"{finding.place}: {elements}; {head_room(finding)}"


def head_room(finding: Finding) -> str:
    """Return how far the true values are from the limit."""
    limit = f"the largest {finding.dtype} ({finding.limit:.6g})"
    if finding.is_true or math.isnan(finding.largest):
        return "in float64 they are not finite either"
    if not finding.largest:
        return f"the true values are zero, far from {limit}"
    ratio = finding.largest / finding.limit
    true = f"the largest true value is {finding.largest:.4g}"
    if ratio > 1:
        wider = next(words for words, most in _WIDER if finding.largest <= most)
        return f"{true}, {ratio:.3g} times {limit}; {wider} it"
    return f"{true}, with a head-room of {1 / ratio:.3g} to {limit}"
