"""The steps of a trainer that says itself where they begin and end."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from torchparity.config import IndexRange, RecordingLevel, RecordingTask
from torchparity.recording import Capture, capture


@dataclass(frozen=True)
class Wanted:
    """The settings of a callback."""

    path: str | Path
    steps: IndexRange
    level: RecordingLevel
    task: RecordingTask
    overwrite: bool


class TrainedSteps:
    """A capture that listens inside the steps of a trainer, and not to what it does between them."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._stack = ExitStack()
        self._capture: Capture | None = None

    def open(self, model: nn.Module) -> None:
        """Begin the recording of a training, and end that of one before it."""
        self.close()
        wanted = self._wanted
        fields = {"step": wanted.steps, "overwrite": wanted.overwrite}
        opening = capture(wanted.path, model=model, level=wanted.level, task=wanted.task, settings=fields)
        self._capture = self._stack.enter_context(opening)
        self._capture.stop()

    def begin(self) -> None:
        if self._capture is not None:
            self._capture.start()

    def pause(self) -> None:
        if self._capture is not None:
            self._capture.stop()

    def end(self) -> None:
        """End a step."""
        if self._capture is not None:
            self._capture.step()
            self._capture.stop()

    def close(self, error: BaseException | None = None) -> None:
        """End the recording; `error` ended the training."""
        self._capture = None
        self._stack.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
