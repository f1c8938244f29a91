"""Judging one result of a check: how far it is from the reference, and whether that is normal for its dtype.

    outcome = Outcome(api="Functional.linear", name="Functional.linear.0.forward.output.0",
                      device=y, reference=truth, same_dtype=of_the_cpu)
    judge(outcome).status       # Status.PASS
    judge(outcome).row()        # the cells of one row of accuracy_checking_details.csv, as DETAILS_HEADER names them

docs/check-standards.md has every formula. Nothing here imports torch before it meets a tensor.
"""

from torchparity.check.judging.deciding import judge
from torchparity.check.judging.distributions import judge_distribution
from torchparity.check.judging.judgement import DETAILS_HEADER, Judgement, skipped
from torchparity.check.judging.outcome import Emulate, Outcome, Pick, Status, join

__all__ = [
    "DETAILS_HEADER",
    "Emulate",
    "Judgement",
    "Outcome",
    "Pick",
    "Status",
    "join",
    "judge",
    "judge_distribution",
    "skipped",
]
