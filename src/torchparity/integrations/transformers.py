"""A callback for the Trainer of transformers: `Trainer(..., callbacks=[ParityCallback("my_run", steps="0-1")])`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from torchparity.config import IndexRange, RecordingLevel, RecordingTask
from torchparity.integrations.trained_steps import TrainedSteps, Wanted


class ParityCallback(TrainerCallback):
    """Records the steps of a training into a run at `path`.

    A step is one of the Trainer's, of all batches whose gradients it accumulates; the first that it
    trains is step 0. `steps` are those to record, as in "0-1"; without them all are.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        steps: IndexRange = None,
        level: RecordingLevel = "mix",
        task: RecordingTask = "statistics",
        overwrite: bool = False,
    ) -> None:
        self._steps = TrainedSteps(Wanted(path, steps, level, task, overwrite))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._steps.open(kwargs["model"])

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._steps.begin()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._steps.end()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._steps.close()
