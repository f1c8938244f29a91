"""The settings of `torchparity run`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchparity.config import CaptureConfig, RecordingLevel, RecordingTask, capture_config
from torchparity.errors import RunExistsError
from torchparity.storage.step_checksums import checksum_file


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The part of a script to record, and the folder."""

    output: Path
    level: RecordingLevel = "mix"
    task: RecordingTask = "statistics"
    steps: str | None = None  # as in "1-2,5"; None: all
    model: str | None = None  # a variable of the script's, or a class
    stop_after: bool = False
    overwrite: bool = False
    checksum_every: int | None = None  # steps
    perturbing: Mapping[str, object] = field(default_factory=dict)  # the block of task free_benchmark
    command: Sequence[str] = ()  # the words that start the script

    @property
    def records(self) -> bool:
        """True where calls are recorded: not where only checksums were asked for."""
        return self.steps is not None or self.checksum_every is None

    @property
    def folder(self) -> Path:
        """The folder of the run, wherever the script goes to."""
        return self.output.expanduser().absolute()

    def config(self) -> CaptureConfig:
        """Return the settings of the recording; raise `ConfigError` for what cannot work."""
        steps = None if self.steps is None else [part.strip() for part in self.steps.split(",")]
        settings = {
            "dump_path": str(self.folder),
            "level": "L1" if self.task in ("overflow_check", "free_benchmark") else self.level,
            "task": self.task,
            "step": steps,
            "overwrite": self.overwrite,
            "free_benchmark": dict(self.perturbing),
        }
        return capture_config(settings, source="torchparity run")

    def make_room(self) -> None:
        """Raise where this rank's run is already there: that is said before the script runs, not after.

        The recording itself replaces the steps of a run that is to be overwritten.
        """
        rank = os.environ.get("RANK", "0")
        checksums = checksum_file(self.folder, int(rank) if rank.isdecimal() else 0)
        if self.overwrite:
            checksums.unlink(missing_ok=True)
        elif checksums.exists() or any(self.folder.glob(f"step*/rank{rank}/dump.json")):
            raise RunExistsError(self.output)
