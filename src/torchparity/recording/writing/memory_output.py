"""Steps of a recording that stay in memory until somebody takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from torchparity.recording.step.pending_step import PendingStep
from torchparity.records import RunInfo
from torchparity.storage import MemoryPart, SharedTensor


class MemoryOutput:
    """Keeps the last step as a part of a run; nothing is written."""

    is_over = False

    def __init__(self, *, task: str, level: str, rank: int) -> None:
        self._task, self._level, self._rank = task, level, rank
        self._part: MemoryPart | None = None

    def take(self) -> MemoryPart | None:
        """Hand over the last step; None where there is none."""
        part, self._part = self._part, None
        return part

    def store(self, step: int, tensor: SharedTensor) -> None:
        """Leave a tensor where it is: the step's records hold it."""

    def write(
        self, step: int, done: PendingStep, missing: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Make a part of a step that is over."""
        self._part = MemoryPart(
            step,
            self._rank,
            RunInfo(task=self._task, level=self._level, environment=dict(environment or {})),
            done.records(),
            stacks=done.stacks,
            construct=done.construct,
            origins=done.origins,
            missing=missing,
        )

    def take_back(self, step: int | None = None) -> None:
        """Do nothing: what was taken is the taker's."""

    def close(self, missing: Iterable[str]) -> None:
        """Let go of what nobody took."""
        self._part = None


class HandingOutput(MemoryOutput):
    """Hands each step to `take` when it is over, and to `end` the sentences about what the whole recording lacks."""

    def __init__(
        self,
        *,
        task: str,
        level: str,
        rank: int,
        take: Callable[[MemoryPart], None],
        end: Callable[[Sequence[str]], None],
    ) -> None:
        super().__init__(task=task, level=level, rank=rank)
        self._hand_over, self._end = take, end

    def write(
        self, step: int, done: PendingStep, missing: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Hand over a step."""
        super().write(step, done, missing, environment)
        part = self.take()
        if part is not None:
            self._hand_over(part)

    def close(self, missing: Iterable[str]) -> None:
        """Tell that the recording is over."""
        self._end(list(missing))
