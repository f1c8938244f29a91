"""The output of a recording, as a session sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from torchparity.recording.step.pending_step import PendingStep
from torchparity.storage import SharedTensor


class StepOutput(Protocol):
    """Takes the steps of one rank, one after the other; no method but `close` comes after `is_over`."""

    @property
    def is_over(self) -> bool:
        """True where nothing more can or shall be taken."""

    def store(self, step: int, tensor: SharedTensor) -> None:
        """Take a tensor while the step goes on, ahead of the records that show it."""

    def write(
        self, step: int, done: PendingStep, missing: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Take a step that is over, with sentences about what it lacks."""

    def take_back(self, step: int | None = None) -> None:
        """Remove what was written of the step in hand, or with None of all steps: they are none of the training.

        What comes next in the same folder may replace it as well.
        """

    def close(self, missing: Iterable[str]) -> None:
        """End the recording, with sentences about what all of it lacks."""
