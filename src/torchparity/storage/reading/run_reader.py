"""Reading a run: its parts by step and rank."""

from __future__ import annotations

from pathlib import Path

from torchparity.errors import NotRecordedError
from torchparity.storage.files.urls import run_path
from torchparity.storage.reading.layout import find_parts
from torchparity.storage.reading.run_part import RunPart


def open_run(path: str | Path) -> RunReader:
    """Open a run by its folder, a step or rank folder in it, or a dump.json, debug.json or .pkl file; URLs too."""
    return RunReader(run_path(path))


class RunReader:
    """A run on disk. Files are read when something of theirs is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts = [RunPart(part) for part in find_parts(path)]

    @property
    def steps(self) -> list[int]:
        """The numbers of the recorded steps, in order."""
        return sorted({part.step for part in self.parts})

    @property
    def ranks(self) -> list[int]:
        """The recorded ranks, in order."""
        return sorted({part.rank for part in self.parts})

    def part(self, step: int | None = None, rank: int | None = None) -> RunPart:
        """Return the part of a step and a rank; where one is left open, the first."""
        return self.select(step, rank)[0]

    def select(self, step: int | None = None, rank: int | None = None) -> list[RunPart]:
        """Return the parts of a step, of a rank, or of both; raise if there are none."""
        selected = [part for part in self.parts if step in (None, part.step) and rank in (None, part.rank)]
        if selected:
            return selected
        if step is not None and step not in self.steps:
            raise NotRecordedError("step", str(step), map(str, self.steps), str(self.path))
        ranks = map(str, sorted({part.rank for part in self.parts if step in (None, part.step)}))
        raise NotRecordedError("rank", str(rank), ranks, str(self.path) if step is None else f"step {step}")
