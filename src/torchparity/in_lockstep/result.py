"""The result of running two models in lockstep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchparity.comparing import Comparison, Verdict, exit_code


@dataclass(frozen=True, eq=False, repr=False)
class LockstepResult:
    """The result of comparing two models in lockstep.

    `comparison` is what `torchparity.compare` returns, with tables and notes. The outputs are those of the last step
    that ran, detached from their graphs.
    """

    comparison: Comparison
    candidate_output: Any
    baseline_output: Any

    @property
    def verdict(self) -> Verdict:
        """The answer: the kind of difference, where it is, and the sentence that says so."""
        return self.comparison.verdict

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return self.verdict.sentence

    @property
    def advice(self) -> str:
        """The next thing to do about it."""
        return self.verdict.advice

    @property
    def agrees(self) -> bool:
        """True where rounding, or the dtypes of the models, explain every difference."""
        return exit_code(self.verdict, "divergence", False) == 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"
