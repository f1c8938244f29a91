"""The output of task overflow_check: a run of the calls that overflowed, and forward_info for what follows."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torchparity.errors import ParityError
from torchparity.recording.overflow.recorder import OverflowRecorder
from torchparity.recording.step.pending_step import PendingStep
from torchparity.recording.writing.output import Output
from torchparity.records import RunInfo
from torchparity.storage import InfoWriter, MemoryPart, SharedTensor
from torchparity.text import counted

_log = logging.getLogger("torchparity")


class OverflowOutput:
    """Writes steps in which a call overflowed, and is over when as many came as were asked for.

    forward_info and backward_info go to the folder that the training was started in.
    """

    def __init__(self, output: Output, recorder: OverflowRecorder, rank: int) -> None:
        self._output, self._recorder, self._rank = output, recorder, rank
        self._info = InfoWriter(Path.cwd(), os.getpid(), real_data=True, outputs=True)

    @property
    def is_over(self) -> bool:
        """True where nothing more can or shall be taken."""
        return self._output.is_over or self._recorder.is_done

    def store(self, step: int, tensor: SharedTensor) -> None:
        """Hand on a tensor."""
        self._output.store(step, tensor)

    def write(
        self, step: int, done: PendingStep, missing: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Write a step that has records."""
        if not done.drafts:
            return
        info = RunInfo(task="overflow_check", level="L1")
        try:  # before the run's writer releases the values
            self._info.add(MemoryPart(step, self._rank, info, done.records(), stacks=done.stacks))
        except ParityError as error:
            _log.warning("torchparity: %s is not written: %s", self._info.forward, error)
        self._output.write(step, done, missing, environment)

    def take_back(self, step: int | None = None) -> None:
        """Do nothing: see `Output`."""

    def close(self, missing: Iterable[str]) -> None:
        """End the run, and say what was left to a GradScaler."""
        probes = self._recorder.scaling.probes
        if probes:
            self._output.remarks.append(f"{counted(probes, 'overflow')} of scaled gradients left to GradScaler")
        self._output.close(missing)
