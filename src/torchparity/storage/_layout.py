"""Where the parts of a run are: a part is what one rank wrote in one step.

    {run}/step0/rank0/dump.json          ours and msprobe's; `rank` and `proc123` too
    {run}/step0/rank0/dump.pkl           ptdbg 4 and later
    {run}/{tag}_v2.0/rank0/dump.pkl      ptdbg 2

Any of these folders, or the file itself, may be named: runs are moved and renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchparity.errors import DamagedFileError, RunNotFoundError

JOURNAL = "journal.jsonl"
TENSOR_FOLDER = "dump_tensor_data"
_OURS = ("dump.json", "debug.json", JOURNAL)
_STEP = re.compile(r"step(\d{1,9})")
_RANK = re.compile(r"(?:rank|proc)(\d{0,18})")


@dataclass(frozen=True, order=True)
class PartPath:
    """One step of one rank, and the folder that holds it."""

    step: int
    rank: int
    folder: Path


def find_parts(path: Path) -> list[PartPath]:
    """Return the parts at or below `path`, by step and rank; raise if there are none."""
    try:
        folder = _folder_of(path)
        parts = sorted(_parts(folder.absolute(), folder))
    except OSError as error:
        raise DamagedFileError(error.filename or path, f"it cannot be looked into ({error.strerror})") from None
    except ValueError as error:  # a NUL byte in the name
        raise RunNotFoundError(f"{str(path)!r} is not a path ({error}).") from None
    if not parts:
        raise RunNotFoundError(
            f"{path} holds no run: no dump.json, debug.json or .pkl file is in it or in its step and rank folders."
            f"{_runs_below(folder)}"
        )
    return parts


def _folder_of(path: Path) -> Path:
    if not path.exists():
        raise RunNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        return path
    if path.name not in _OURS and path.suffix != ".pkl":
        raise RunNotFoundError(f"{path} is not part of a run; name its folder, dump.json, debug.json or a .pkl file.")
    return path.parent


def _parts(named: Path, path: Path) -> Iterator[PartPath]:
    if is_part(path):
        yield PartPath(_number(_STEP, named.parent.name), _number(_RANK, named.name), path)
        return
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir())
    ranks = [folder for folder in folders if _RANK.fullmatch(folder.name)]
    steps = [folder for folder in folders if _STEP.fullmatch(folder.name)]
    if ranks:
        step = _number(_STEP, named.name)
        yield from (PartPath(step, _number(_RANK, rank.name), rank) for rank in ranks if is_part(rank))
    elif steps:
        for step_folder in steps:
            yield from _parts(named / step_folder.name, step_folder)
    else:
        for folder in folders:
            # ptdbg puts everything below one folder named after its tag and version.
            if re.search(r"_v\d+(\.\d+)*$", folder.name):
                yield from _parts(named / folder.name, folder)


def _runs_below(folder: Path) -> str:
    """Say which folders below hold runs, for somebody who named the folder of all runs."""
    runs = [entry.name for entry in sorted(folder.iterdir()) if entry.is_dir() and any(_parts(entry, entry))]
    return f" There are runs in it: {', '.join(runs[:5])}{', ...' if len(runs) > 5 else ''}." if runs else ""


def is_part(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _OURS) or bool(list(folder.glob("*.pkl")))


def _number(pattern: re.Pattern[str], name: str) -> int:
    found = pattern.fullmatch(name)
    return int(found[1]) if found and found[1] else 0
