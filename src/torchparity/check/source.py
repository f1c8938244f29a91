"""The place that calls are read from: a run, or the files of the collection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchparity.errors import ConfigError, NotRecordedError
from torchparity.storage import RunPart, collected_error_data_path, open_info_files, open_run

Named = frozenset[int] | Literal["all"] | None  # steps or ranks that were named; None: nobody named any

_WITHOUT_CALLS = ("L0", "debug")
_FORWARD_INFO = "forward_info"


@dataclass(frozen=True, kw_only=True)
class RunSource:
    """A run, by its folder or its dump.json; every step and rank that is not left out by name."""

    path: Path
    steps: Named = None
    ranks: Named = None

    def error_data_path(self) -> Path | None:
        """Return None: a run says nothing about where to save what fails."""
        return None

    def parts(self) -> list[RunPart]:
        """Return the parts to check, in order; raise for a step or rank that the run has not."""
        run = open_run(self.path)
        _refuse_missing("step", self.steps, run.steps, str(run.path))
        _refuse_missing("rank", self.ranks, run.ranks, str(run.path))
        return [part for part in run.parts if _is_in(part.step, self.steps) and _is_in(part.rank, self.ranks)]

    def part(self, step: int, rank: int) -> RunPart:
        """Return one part."""
        return open_run(self.path).part(step, rank)


@dataclass(frozen=True, kw_only=True)
class InfoSource:
    """A forward_info, with its backward_info where there is one."""

    forward: Path
    backward: Path | None = None
    real_data: Path | None = None  # the folder of forward_real_data and backward_real_data; else that of `forward`

    @property
    def steps(self) -> Named:
        """None: the files are of one iteration."""
        return None

    @property
    def ranks(self) -> Named:
        """None: the files are of one process."""
        return None

    def error_data_path(self) -> Path | None:
        """Return the folder for what fails that the collection was given, if it was."""
        return collected_error_data_path(self.forward)

    def parts(self) -> list[RunPart]:
        """Return the calls of the files as the only part of a run."""
        return [self.part(0, 0)]

    def part(self, step: int, rank: int) -> RunPart:
        """Return that part."""
        return open_info_files(self.forward, self.backward, real_data=self.real_data)


Source = RunSource | InfoSource


def source_at(path: Path, *, steps: Named = None, ranks: Named = None) -> Source:
    """Return what lies at a path: a run, or a forward_info with the backward_info beside it."""
    if _FORWARD_INFO not in path.name or path.suffix != ".json":
        return RunSource(path=path, steps=steps, ranks=ranks)
    if steps is not None or ranks is not None:
        raise ConfigError(f"{path} is a forward_info, which has no steps and ranks; leave --step and --rank out.")
    beside = path.with_name(path.name.replace(_FORWARD_INFO, "backward_info"))
    return InfoSource(forward=path, backward=beside if beside.is_file() else None)


def refuse_without_calls(part: RunPart) -> None:
    """Raise where a part holds no calls of APIs."""
    if part.info.level in _WITHOUT_CALLS:
        raise ConfigError(f"{part.folder} has level {part.info.level}; to check APIs, record with level L1 or mix.")
    if part.info.task == "structure":
        raise ConfigError(f"{part.folder} has task structure, which keeps no arguments; record with task statistics.")


def _refuse_missing(kind: str, named: Named, there: list[int], run: str) -> None:
    for number in sorted(named) if isinstance(named, frozenset) else ():
        if number not in there:
            raise NotRecordedError(kind, str(number), map(str, there), run)


def _is_in(number: int, named: Named) -> bool:
    return not isinstance(named, frozenset) or number in named
