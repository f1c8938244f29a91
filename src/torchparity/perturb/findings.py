"""The tables that task free_benchmark writes: one file for all ranks, to which each adds whole lines."""

from __future__ import annotations

import csv
import io
import os
import stat
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from torchparity.errors import RunWriteError
from torchparity.text import counted
from torchparity.whole_file import reason_of, refuse_unwritable

try:
    import fcntl
except ImportError:  # Windows, where adding to a file takes place under no lock
    fcntl = None  # type: ignore[assignment]


class Table(NamedTuple):
    """A table: the name of its file, and its columns."""

    file: str
    columns: tuple[str, ...]


DEVIATIONS = Table(
    "free_benchmark.csv",
    ("rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index"),
)
SIGNIFICANCE = Table(
    "significance.csv",
    ("rank", "step", "kind", "name", "calls", "bits", "precision", "condition", "error", "verdict", "worst_call"),
)
TABLES = (DEVIATIONS, SIGNIFICANCE)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some programs put before the header


def refuse_other_columns(folder: Path, table: Table) -> None:
    """Raise where a folder has something else by the name of a table; its lines may end in either way."""
    path, header = folder / table.file, _line(table.columns)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            is_there = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise RunWriteError(path, f"it is {is_there}, and a table of that name goes there")
        with path.open("rb") as file:
            first = file.readline(len(_BYTE_ORDER_MARK) + len(header) + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunWriteError(path, reason_of(error)) from None
    if first and first.removeprefix(_BYTE_ORDER_MARK).rstrip(b"\r\n") != header.rstrip(b"\r\n"):
        raise RunWriteError(path, "the table there has other columns; move it away, or choose another folder")


def remove_tables(folder: Path) -> None:
    """Remove the tables of an earlier training; raise where something else has their names."""
    for table in TABLES:
        refuse_other_columns(folder, table)
    for table in TABLES:
        try:
            (folder / table.file).unlink(missing_ok=True)
        except OSError as error:
            raise RunWriteError(folder / table.file, reason_of(error)) from None


class SharedTable:
    """A csv file that several processes add rows to, each row whole and the header once.

    Making it raises where it cannot be written; rows that cannot be written later are counted.
    """

    def __init__(self, folder: Path, table: Table) -> None:
        self.path = folder / table.file
        self._header = _line(table.columns)
        self.rows = 0  # that this process had to add
        self._lost, self._reason = 0, ""
        self._written: dict[int, array[int]] = {}  # hashes of lines by step: a long training has many
        refuse_unwritable(folder)
        refuse_other_columns(folder, table)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._append(b"")
            self._begin = self.path.stat().st_size  # what is before it is of an earlier training
        except OSError as error:
            raise RunWriteError(self.path, reason_of(error)) from None

    def add(self, row: Sequence[Any], step: int) -> None:
        """Add a row of a step."""
        self.rows += 1
        line = _line(row)
        try:
            self._append(line)
        except OSError as error:
            self._lost, self._reason = self._lost + 1, reason_of(error)
        else:
            self._written.setdefault(step, array("q")).append(hash(line))

    def take_back(self, step: int | None = None) -> None:
        """Remove the rows that were added, all or those of a step: they are of no training.

        They stay where the file has no lock, since other ranks may add rows meanwhile.
        """
        steps = list(self._written) if step is None else [step]
        unwanted = Counter(chain.from_iterable(self._written.pop(each, ()) for each in steps))
        self.rows -= unwanted.total()
        if not unwanted:
            return
        with suppress(OSError), self.path.open("r+b") as file, _locked(file.fileno()) as is_alone:
            if not is_alone:
                return
            begin = self._begin if os.fstat(file.fileno()).st_size >= self._begin else 0  # it is another file
            file.seek(begin)
            kept: list[bytes] = []
            for line in reversed(file.read().splitlines(keepends=True)):  # other trainings may have the same rows
                if unwanted[hash(line)] > 0:
                    unwanted[hash(line)] -= 1
                else:
                    kept.append(line)
            file.seek(begin)
            file.writelines(reversed(kept))
            file.truncate()

    def lost_sentences(self) -> list[str]:
        """Return what to say of rows that could not be written."""
        if not self._lost:
            return []
        return [f"{counted(self._lost, 'row')} could not be written to {self.path.name} ({self._reason})"]

    def _append(self, line: bytes) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            with _locked(file) as is_alone:
                size = os.fstat(file).st_size
                line = _beginning(file, self._header) + line
                try:
                    while line:
                        line = line[os.write(file, line) :]
                except OSError:
                    if is_alone:  # a part of a line is worse than none, and a line of another rank's worth more
                        with suppress(OSError):
                            os.ftruncate(file, size)
                    raise
        finally:
            os.close(file)


@contextmanager
def _locked(file: int) -> Iterator[bool]:
    """Hold a file for this process alone; yield whether that could be: some file systems have no locks."""
    is_alone = False
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
            is_alone = True
    yield is_alone  # closing the file gives it back


def _beginning(file: int, header: bytes) -> bytes:
    """Return what has to stand between the end of a file and a row: in an empty one the header."""
    size = os.fstat(file).st_size
    if not size:
        return header
    os.lseek(file, size - 1, os.SEEK_SET)
    return b"" if os.read(file, 1) == b"\n" else b"\r\n"  # the last row was cut off


def _line(row: Sequence[Any]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(row)
    return text.getvalue().encode("utf-8", errors="backslashreplace")
