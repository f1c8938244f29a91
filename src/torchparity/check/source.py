"""The place that calls are read from: a run, or the files of the collection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchparity.errors import ConfigError
from torchparity.storage import RunPart, open_info_files, open_run

_WITHOUT_CALLS = ("L0", "debug")
_FORWARD_INFO = "forward_info"


@dataclass(frozen=True, kw_only=True)
class RunSource:
    """A run, by its folder or its dump.json; the first step and rank where none is named."""

    path: Path
    step: int | None = None
    rank: int | None = None

    def part(self) -> RunPart:
        """Return the part to check; raise where it holds no calls of APIs."""
        part = open_run(self.path).part(self.step, self.rank)
        if part.info.level in _WITHOUT_CALLS:
            raise ConfigError(f"{self.path} has level {part.info.level}; to check APIs, record with level L1 or mix.")
        if part.info.task == "structure":
            raise ConfigError(f"{self.path} has task structure, which keeps no arguments; record with task statistics.")
        return part


@dataclass(frozen=True, kw_only=True)
class InfoSource:
    """A forward_info, with its backward_info where there is one."""

    forward: Path
    backward: Path | None = None

    def part(self) -> RunPart:
        """Return the calls of the files as a part of a run."""
        return open_info_files(self.forward, self.backward)


Source = RunSource | InfoSource


def source_at(path: Path, *, step: int | None = None, rank: int | None = None) -> Source:
    """Return what lies at a path: a run, or a forward_info with the backward_info beside it."""
    if _FORWARD_INFO not in path.name or path.suffix != ".json":
        return RunSource(path=path, step=step, rank=rank)
    beside = path.with_name(path.name.replace(_FORWARD_INFO, "backward_info"))
    return InfoSource(forward=path, backward=beside if beside.is_file() else None)
