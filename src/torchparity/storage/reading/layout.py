"""The folder layout of a run; a part is one step of one rank.

    {run}/step0/rank0/dump.json          ours and msprobe's; `rank` and `proc123` too
    {run}/step0/rank0/dump.pkl           ptdbg 4 and later
    {run}/{tag}_v2.0/rank0/dump.pkl      ptdbg 2

Any of these folders, or the file itself, may be named: runs are moved and renamed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from torchparity.errors import DamagedFileError, RunNotFoundError, RunWriteError
from torchparity.storage.files.urls import UrlPath
from torchparity.storage.formats import load_format, writable_formats

JOURNAL = "journal.jsonl"
TENSOR_FOLDER = "dump_tensor_data"
_RECORD_FILES = ("dump.json", "debug.json", JOURNAL)
_OWN_FILES = (*_RECORD_FILES, "stack.json", "construct.json", "dump_error_info.log")
_STEP = re.compile(r"step(\d{1,9})", re.ASCII)
_RANK = re.compile(r"(?:rank|proc)(\d{0,18})", re.ASCII)

_MOST_NAMED = 5
_TABLES = {  # by the beginning of their names
    "free_benchmark.csv": "the table of task free_benchmark, with a row for each result beyond its threshold",
    "significance.csv": "the table of significant bits that task free_benchmark counted",
    "accuracy_checking_result": "the table of torchparity check, with a row for each call",
    "compare_result": "the table of torchparity compare, with a row for each item",
}


class PartPath(msgspec.Struct, frozen=True, order=True):
    """One step of one rank, the folder that holds it, and the .pkl if one was named."""

    step: int
    rank: int
    folder: Path
    pkl: Path | None = None


def find_parts(path: Path) -> list[PartPath]:
    """Return the parts at or below `path`, by step and rank; raise if there are none."""
    try:
        if not path.exists():
            raise RunNotFoundError(f"{path} does not exist.")
        if path.suffix == ".pkl" and path.is_file():
            return [PartPath(*_numbers(path.parent.absolute()), path.parent, path)]
        folder = _folder_of(path)
        parts = sorted(_parts(folder.absolute(), folder))
        found = "" if parts else _found_in(folder)
    except OSError as error:
        raise DamagedFileError(error.filename or path, f"it cannot be looked into ({error.strerror})") from None
    except ValueError as error:  # a NUL byte in the name
        raise RunNotFoundError(f"{str(path)!r} is not a path ({error}).") from None
    if not parts:
        raise RunNotFoundError(f"{path} holds no run{found}")
    return parts


def has_records(folder: Path) -> bool:
    """Tell whether the folder holds records of msprobe or torchparity."""
    return any((folder / name).is_file() for name in _RECORD_FILES)


def is_finished(folder: Path) -> bool:
    """Tell whether the step was written to its end: dump.json is written last and the journal removed."""
    dump, debug, journal = ((folder / name).is_file() for name in _RECORD_FILES)
    return dump or (debug and not journal)


def ptdbg_files(folder: Path) -> list[Path]:
    """Return the .pkl files that are JSON lines; others (profiles, checkpoints) are not ours."""
    return [file for file in sorted(folder.glob("*.pkl")) if file.is_file() and _first_byte(file) in (b"[", b"\x80")]


def remove_part(folder: Path, run: Path) -> None:
    """Remove the files of a run from a rank folder, and no other files in it."""
    for place in (folder, folder.parent, folder / TENSOR_FOLDER):
        if place.is_symlink() and place != run:
            raise RunWriteError(place, "it is a symbolic link, and what lies behind it may not be this run's")
    tensors = folder / TENSOR_FOLDER
    suffixes = [load_format(name).suffix for name in writable_formats()]
    written = [
        file for pattern in (*(f"*{suffix}" for suffix in suffixes), ".*.part") for file in tensors.glob(pattern)
    ]
    for file in [folder / name for name in _OWN_FILES] + written:
        file.unlink(missing_ok=True)
    for emptied in (tensors, folder, folder.parent):
        if emptied.is_dir() and not any(emptied.iterdir()):
            emptied.rmdir()


def _folder_of(path: Path) -> Path:
    if path.is_dir():
        return path
    if table := _meaning(path.name):
        raise RunNotFoundError(f"{path} is no run but {table}; open it in a spreadsheet, or name a run.")
    if path.name not in _RECORD_FILES:
        raise RunNotFoundError(f"{path} is not part of a run; name its folder, dump.json, debug.json or a .pkl file.")
    return path.parent


def _parts(named: Path, path: Path) -> Iterator[PartPath]:
    if _holds(path, has_records):
        yield PartPath(*_numbers(named), path)
        return
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir())
    ranks = [folder for folder in folders if _RANK.fullmatch(folder.name)]
    parts = [PartPath(*_numbers(named / rank.name), rank) for rank in ranks if _holds(rank, _is_part)]
    steps = [] if parts else [folder for folder in folders if _STEP.fullmatch(folder.name)]
    for step in steps:
        if _holds(step, lambda _: False):
            parts.append(PartPath(_number(_STEP, step.name), 0, step))  # cannot be listed; reading it will say so
        else:
            parts += _parts(named / step.name, step)
    if not parts and ptdbg_files(path):
        parts = [PartPath(*_numbers(named), path)]
    for folder in folders if not parts else []:
        # ptdbg puts everything below one folder named after its tag and version.
        if re.search(r"_v\d+(\.\d+)*$", folder.name):
            parts += _parts(named / folder.name, folder)
    yield from parts


def _is_part(folder: Path) -> bool:
    return has_records(folder) or bool(ptdbg_files(folder))


def _holds(folder: Path, test: Callable[[Path], bool]) -> bool:
    """Tell whether a folder passes a test; an unreadable one passes, so that reading it reports the problem."""
    try:
        next(folder.iterdir(), None)
        return test(folder)
    except PermissionError:
        return True


def _found_in(folder: Path) -> str:
    """Say what there is in a folder without a run: the runs of somebody who keeps them there, or results."""
    nothing = ": no dump.json, debug.json or .pkl file is in it or its step and rank folders."
    entries = sorted(folder.iterdir())
    folders = [entry for entry in entries if entry.is_dir() and _holds(entry, lambda f: any(_parts(f, f)))]
    if folders:
        more = f" and {len(folders) - _MOST_NAMED} more" if len(folders) > _MOST_NAMED else ""
        names = ", ".join(entry.name for entry in folders[:_MOST_NAMED]) + more
        return f"{nothing} There are runs in it: {names}."
    table = next((entry for entry in entries if entry.is_file() and _meaning(entry.name)), None)
    return f" but {_meaning(table.name)}; open {table} in a spreadsheet." if table is not None else nothing


def _meaning(name: str) -> str:
    """Return in words which results a file of this name has; nothing where it is none of ours."""
    return next((words for table, words in _TABLES.items() if name.startswith(table)), "")


def _numbers(folder: Path) -> tuple[int, int]:
    """Return step and rank by the names of a part's folder and its parent."""
    if _STEP.fullmatch(folder.name):
        return _number(_STEP, folder.name), 0
    return _number(_STEP, folder.parent.name), _number(_RANK, folder.name)


def _number(pattern: re.Pattern[str], name: str) -> int:
    numbered = pattern.fullmatch(name)
    return int(numbered[1]) if numbered and numbered[1] else 0


def _first_byte(file: Path) -> bytes:
    if isinstance(file, UrlPath):
        return file.fetch(0, 1)
    try:
        with file.open("rb") as opened:
            return opened.read(1)
    except OSError:
        return b""
