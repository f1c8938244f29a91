"""The settings of `torchparity run`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from torchparity.config import LARGEST_INDEX, CaptureConfig, RecordingLevel, RecordingTask, capture_config
from torchparity.errors import ConfigError, RunExistsError
from torchparity.perturb.findings import DEVIATIONS, SIGNIFICANCE, TABLES, refuse_other_columns, remove_tables
from torchparity.storage import remove_part
from torchparity.storage.step_checksums import checksum_file
from torchparity.whole_file import refuse_unwritable, with_home

_SPAN = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.ASCII)
_PART = re.compile(r"(?:step|rank)\d+", re.ASCII)
_OF_APIS = ("overflow_check", "free_benchmark")


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
    overflow_nums: int | None = None
    perturbing: Mapping[str, object] = field(default_factory=dict)  # the block of task free_benchmark
    command: Sequence[str] = ()  # the words that start the script
    log: Path | None = None  # the file for what torchparity logs

    @property
    def records(self) -> bool:
        """True where calls are recorded: not where only checksums were asked for."""
        return self.steps is not None or self.checksum_every is None

    @property
    def writes(self) -> bool:
        """True where there will be files: not where results are only replaced."""
        return self.task != "free_benchmark" or self.perturbing.get("handler_type") != "fix"

    @cached_property
    def folder(self) -> Path:
        """The folder of the run, wherever the script goes to: `run_script` asks for it before that."""
        return with_home(self.output).absolute()

    def log_file(self) -> Path | None:
        """Return the path of the log, where one is asked for; raise for one that takes the place of what is written."""
        if self.log is None:
            return None
        path = with_home(self.log).absolute()
        taken = (self.folder, *(self.folder / table.file for table in TABLES))
        if path.resolve() in [each.resolve() for each in taken]:
            raise ConfigError(f"--log-file {self.log} is where the run goes to; name another file.")
        return path

    def config(self) -> CaptureConfig:
        """Return the settings of the recording; raise `ConfigError` for what cannot work."""
        steps = None if self.steps is None else _checked_steps(self.steps)
        is_of_apis = self.task in _OF_APIS
        if is_of_apis and self.level == "L0":
            raise ConfigError(f"--task {self.task} looks at APIs, and --level L0 has none; leave --level out.")
        if self.task == "free_benchmark" and not self.records:
            raise ConfigError(
                "--checksum-every keeps checksums; beside it --task free_benchmark perturbs calls only where --steps "
                "says so: give --steps too, or leave one of them out."
            )
        settings = {
            "dump_path": str(self.folder),
            "level": "L1" if is_of_apis else self.level,
            "task": self.task,
            "step": steps,
            "overwrite": self.overwrite and self.task != "free_benchmark",  # whose tables `make_room` removes
            "overflow_check": {} if self.overflow_nums is None else {"overflow_nums": self.overflow_nums},
            "free_benchmark": dict(self.perturbing),
        }
        return capture_config(settings, source="run")

    def has_recorded(self) -> bool:
        """Tell whether there is a recorded step in the folder."""
        return any(self.folder.glob("step*/rank*/dump.json"))

    def make_room(self) -> None:
        """Raise where this rank's run is already there, or cannot be written: before the script runs, not after.

        A recording itself replaces the steps of a run that is to be overwritten.
        """
        _refuse_part_of_a_run(self.folder, self.output)
        if self.writes:
            refuse_unwritable(self.folder)
        rank = os.environ.get("RANK", "0")
        checksums = checksum_file(self.folder, int(rank) if rank.isdecimal() else 0)
        if self.overwrite:
            if rank == "0":
                remove_tables(self.folder)
            checksums.unlink(missing_ok=True)
            if self.task == "free_benchmark":
                for part in self.folder.glob(f"step*/rank{rank}"):
                    remove_part(part, self.folder)
        elif checksums.exists() or any(self.folder.glob(f"step*/rank{rank}/dump.json")):
            raise RunExistsError(self.output)
        elif self.task == "free_benchmark" and self.writes:
            refuse_other_columns(self.folder, SIGNIFICANCE if self.perturbing.get("significance") else DEVIATIONS)


def _checked_steps(text: str) -> list[str]:
    """Return the parts of --steps; raise `ConfigError` for what is no number and no span."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        found = _SPAN.fullmatch(part)
        if found is None or int(found["last"] or found["first"]) > LARGEST_INDEX:
            raise ConfigError(
                f"--steps is {text!r}; it takes numbers from 0 to {LARGEST_INDEX} and spans, such as 3 or 0,10-12."
            )
        first, last = int(found["first"]), int(found["last"] or found["first"])
        if last < first:
            raise ConfigError(f"--steps is {text!r}, which ends before it begins; did you mean {last}-{first}?")
    return parts


def _refuse_part_of_a_run(folder: Path, output: Path) -> None:
    """Raise where a folder is one of a step, or would be inside of one: nobody could tell the runs apart."""
    if _PART.fullmatch(folder.name):
        raise ConfigError(f"{output} is how a run names the folder of a step; choose another name for the run.")
    for outer in folder.parents:
        if _PART.fullmatch(outer.name) and any(any(outer.glob(dump)) for dump in ("dump.json", "rank*/dump.json")):
            run = next(each for each in outer.parents if not _PART.fullmatch(each.name))
            raise ConfigError(f"{output} is inside of the run {run}; choose a folder outside of it.")
