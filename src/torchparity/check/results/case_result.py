"""The result of one case: a row for the API, and a row for each of its outputs and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torchparity.check.judging import Judgement, Status, join


class CallKey(NamedTuple):
    """One call of a run: the calls of every step and rank have the same names."""

    name: str
    step: int
    rank: int


@dataclass(frozen=True)
class CaseResult:
    """One row of accuracy_checking_result.csv with its details; a direction that the run has not is None."""

    name: str
    forward: Status | None
    backward: Status | None
    message: str
    details: tuple[Judgement, ...] = ()
    step: int = 0
    rank: int = 0

    @property
    def key(self) -> CallKey:
        """The call, among all of the run's."""
        return CallKey(self.name, self.step, self.rank)

    @property
    def status(self) -> Status:
        """The worse of both directions."""
        return join(status for status in (self.forward, self.backward) if status is not None) or Status.SKIP

    @property
    def has_failed(self) -> bool:
        """True where a direction is an error."""
        return self.status is Status.ERROR


def skipped_case(call: CallKey, reason: str, *, has_backward: bool) -> CaseResult:
    """Return the row of a call that was not run."""
    backward = Status.SKIP if has_backward else None
    return CaseResult(call.name, Status.SKIP, backward, f"{reason}.", step=call.step, rank=call.rank)
