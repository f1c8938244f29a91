"""The place that calls are read from: a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchparity.errors import ConfigError
from torchparity.storage import RunPart, open_run

_WITHOUT_CALLS = ("L0", "debug")


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
        return part
