"""A callback for the Trainer of Lightning: `Trainer(..., callbacks=[ParityCallback("my_run", steps="0-1")])`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from torchparity.config import IndexRange, RecordingLevel, RecordingTask
from torchparity.integrations.trained_steps import TrainedSteps, Wanted


class ParityCallback(Callback):
    """Records the steps of a training into a run at `path`.

    A step ends with the batch after which an optimizer has stepped; the first that is trained is
    step 0. `steps` are those to record, as in "0-1"; without them all are.
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
        self._before = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._before = trainer.global_step
        self._steps.open(pl_module)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._steps.begin()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self._before:  # gradients are being accumulated
            self._steps.pause()
        else:
            self._steps.end()
        self._before = trainer.global_step

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._steps.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._steps.close(exception)
