"""A callback for the Trainer of transformers: `Trainer(..., callbacks=[ParityCallback("my_run", steps="0-1")])`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from torchparity.calls import Patches
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
        self._patches = Patches()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._steps.open(kwargs["model"])
        trainer = _trainer_around(sys._getframe())
        if trainer is not None:
            # Earlier versions than 5 have no method for an epoch; there a failure of the optimizer is not seen.
            part = "_run_epoch" if hasattr(trainer, "_run_epoch") else "training_step"
            self._patches.put(trainer, part, self._ending_with_it)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._steps.begin()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._steps.end()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._patches.end()
        self._steps.close()

    def _ending_with_it(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """End the recording where the training fails: the Trainer tells its callbacks nothing of that."""

        @functools.wraps(original)
        def part_of_training(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                self._patches.end()
                self._steps.close(error)
                raise

        return part_of_training


def _trainer_around(frame: FrameType | None) -> Trainer | None:
    """Return the Trainer whose method called, from one of the frames around; callbacks are not given it."""
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Trainer):
            return caller
        frame = frame.f_back
    return None
