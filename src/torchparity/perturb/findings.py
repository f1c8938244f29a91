"""free_benchmark.csv: one file for all ranks, to which each adds whole lines."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torchparity.errors import RunWriteError
from torchparity.text import counted
from torchparity.whole_file import reason_of

try:
    import fcntl
except ImportError:  # Windows, where adding to a file takes place under no lock
    fcntl = None  # type: ignore[assignment]


TABLES = ("free_benchmark.csv", "significance.csv")  # to which a training adds its rows


class SharedTable:
    """A csv file that several processes add rows to, each row whole and the header once.

    Making it raises where it cannot be written; rows that cannot be written later are counted.
    """

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        self.path = path
        self._header = _line(header)
        self.rows = 0  # that this process had to add
        self._lost, self._reason = 0, ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(b"")
            with path.open("rb") as file:
                first = file.read(len(self._header))
        except OSError as error:
            raise RunWriteError(path, reason_of(error)) from None
        if first != self._header:
            raise RunWriteError(path, "the table there has other columns; move it away, or choose another folder")

    def add(self, row: Sequence[Any]) -> None:
        """Add a row."""
        self.rows += 1
        try:
            self._append(_line(row))
        except OSError as error:
            self._lost, self._reason = self._lost + 1, reason_of(error)

    def lost_sentences(self) -> list[str]:
        """Return what to say of rows that could not be written."""
        if not self._lost:
            return []
        return [f"{counted(self._lost, 'row')} could not be written to {self.path.name} ({self._reason})"]

    def _append(self, line: bytes) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            with _locked(file):
                size = os.fstat(file).st_size
                line = _beginning(file, self._header) + line
                try:
                    while line:
                        line = line[os.write(file, line) :]
                except OSError:
                    os.ftruncate(file, size)  # a part of a line is worse than none
                    raise
        finally:
            os.close(file)


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Hold a file for this process alone; some file systems have no locks, and adding is whole there too."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
    yield  # closing the file gives it back


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
