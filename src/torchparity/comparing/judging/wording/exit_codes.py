"""The exit code of `compare`, by the kind of the verdict and what `--fail-on` asks for."""

from __future__ import annotations

from typing import Literal

from torchparity.comparing.judging.verdict import Kind, Verdict

FailOn = Literal["divergence", "any", "never"]
# Nothing parts the runs but what these kinds say: where something else does, the verdict has its kind.
_AGREEING = (Kind.AGREE, Kind.DTYPE, Kind.BATCH)


def exit_code(verdict: Verdict, fail_on: FailOn, has_differences: bool) -> int:
    """Return 0 or 1; `has_differences` tells whether any row of the tables differs. docs/verdicts.md has the table."""
    if fail_on == "never":
        return 0
    if fail_on == "any":
        return int(has_differences or verdict.kind is not Kind.AGREE)
    return int(_is_divergence(verdict))


def _is_divergence(verdict: Verdict) -> bool:
    if verdict.kind is Kind.ARGUMENT:
        return verdict.first is None or verdict.first.is_shown
    if verdict.kind is Kind.BATCH and verdict.first is not None:
        return True  # what does not depend on the batch size differs
    return verdict.kind not in _AGREEING
