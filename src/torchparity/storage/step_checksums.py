"""One checksum of the weights and the losses for every so many steps, in one small file per rank.

    {run}/checksums_rank0.jsonl     a header, and then a line for each step that was looked at

A line is written and flushed when its step is over, so a training that is cut off leaves those before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchparity.errors import DamagedFileError, RunWriteError
from torchparity.storage.files.urls import UrlPath

_LARGEST = 64 << 20
_NAME = "checksums_rank{rank}.jsonl"


class StepChecksum(msgspec.Struct, frozen=True):
    """The state after a step: a checksum of all weights, and the losses as texts, which have every digit."""

    step: int
    weights: str
    losses: tuple[str, ...]


class StepChecksums(msgspec.Struct, frozen=True):
    """The checksums of one rank; `command` are the words that started the script, `start` is before all steps."""

    every: int
    command: Sequence[str]
    start: str
    steps: Sequence[StepChecksum]


def checksum_file(folder: Path, rank: int) -> Path:
    return folder / _NAME.format(rank=rank)


def ranks_with_checksums(folder: Path) -> list[int]:
    """Return the ranks that have a file of checksums in a folder."""
    # os.path.isdir answers for whatever is no path, too.
    if not (folder.is_dir() if isinstance(folder, UrlPath) else os.path.isdir(folder)):
        return []
    numbers = (file.stem.removeprefix("checksums_rank") for file in folder.glob(_NAME.format(rank="*")))
    return sorted(int(number) for number in numbers if number.isdecimal() and len(number) < 8)


class ChecksumWriter:
    """Writes the file of one rank."""

    def __init__(self, path: Path, *, every: int, command: Sequence[str], start: str) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_line({"every": every, "command": list(command), "start": start}))
        except OSError as error:
            raise RunWriteError(path, error.strerror or str(error)) from None

    def add(self, checksum: StepChecksum) -> None:
        try:
            with self._path.open("a") as file:
                file.write(_line({"step": checksum.step, "weights": checksum.weights, "losses": checksum.losses}))
        except OSError as error:
            raise RunWriteError(self._path, error.strerror or str(error)) from None


def read_checksums(folder: Path, rank: int) -> StepChecksums:
    """Read the file of one rank; a last line that was cut off is left out."""
    import json  # most comparisons find no such file

    path = checksum_file(folder, rank)
    try:
        if not path.is_file():
            raise DamagedFileError(path, "it is no ordinary file")
        if path.stat().st_size > _LARGEST:
            raise DamagedFileError(path, "it is too large for a file of checksums")
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        header, *steps = [json.loads(line) for line in lines]
        return StepChecksums(
            every=int(header["every"]),
            command=[str(word) for word in header["command"]],
            start=str(header["start"]),
            steps=[_checksum(step) for step in steps],
        )
    except OSError as error:
        raise DamagedFileError(path, f"it cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DamagedFileError(path, f"it is no file of checksums ({type(error).__name__})") from None


def _checksum(step: Mapping[str, Any]) -> StepChecksum:
    losses = step["losses"]
    if not isinstance(losses, list):
        raise TypeError("losses are a list")
    return StepChecksum(int(step["step"]), str(step["weights"]), tuple(map(str, losses)))


def _line(fields: Mapping[str, Any]) -> str:
    import json

    return json.dumps(fields) + "\n"
