"""The settings of `torchparity run`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from torchparity.config import CaptureConfig, RecordingLevel, RecordingTask, capture_config
from torchparity.errors import RunExistsError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What to record of a script, and where."""

    output: Path
    level: RecordingLevel = "mix"
    task: RecordingTask = "statistics"
    steps: str | None = None  # as in "1-2,5"; None: all
    model: str | None = None  # a variable of the script's, or a class
    stop_after: bool = False
    overwrite: bool = False

    def config(self) -> CaptureConfig:
        """Return the settings of the recording; raise `ConfigError` for what cannot work."""
        steps = None if self.steps is None else [part.strip() for part in self.steps.split(",")]
        settings = {
            "dump_path": str(self.output.expanduser().absolute()),  # the script may go to another folder
            "level": self.level,
            "task": self.task,
            "step": steps,
            "overwrite": self.overwrite,
        }
        return capture_config(settings, source="torchparity run")

    def refuse_existing(self) -> None:
        """Raise where this rank's steps are already there: that is said before the script runs, not after."""
        rank = os.environ.get("RANK", "0")
        if not self.overwrite and any(self.output.expanduser().glob(f"step*/rank{rank}/dump.json")):
            raise RunExistsError(self.output)
