"""accuracy_checking_result.csv and accuracy_checking_details.csv, which grow with every API that is done.

The details of an API are written before its row, so an interrupted check lacks at most the row of the API that it
was at; `continued` goes on from there.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TextIO

from torchparity.check.results.case_result import CallKey, CaseResult
from torchparity.check.results.rows import (
    DETAILS_HEADER,
    RESULT_HEADER,
    detail_rows,
    guarded,
    read_rows,
    result_of_row,
    result_row,
)
from torchparity.errors import ConfigError, RecordNameError, RunWriteError
from torchparity.naming import split_item
from torchparity.whole_file import reason_of, whole_file

RESULT_STEM = "accuracy_checking_result"
DETAILS_STEM = "accuracy_checking_details"


class ResultFiles:
    """The two files of one check, open for more rows; `done` has the results that they hold, by call."""

    def __init__(self, result: Path, details: Path, done: Mapping[CallKey, CaseResult]) -> None:
        self.result, self.details, self.done = result, details, done
        self._files = [_opened(details), _opened(result)]
        self._details, self._result = (csv.writer(file, lineterminator="\n") for file in self._files)

    @classmethod
    def new(cls, folder: Path) -> ResultFiles:
        """Begin two files in a folder, in place of those of an earlier check."""
        result, details = folder / f"{RESULT_STEM}.csv", folder / f"{DETAILS_STEM}.csv"
        _write(details, DETAILS_HEADER, [])
        _write(result, RESULT_HEADER, [])
        return cls(result, details, {})

    @classmethod
    def continued(cls, result: Path) -> ResultFiles:
        """Go on with the files of an interrupted check: `result` names the one with a row for each API."""
        if RESULT_STEM not in result.name:
            raise ConfigError(f"-csv_path {result} is not a file named {RESULT_STEM}….csv, which a check leaves.")
        details = result.with_name(result.name.replace(RESULT_STEM, DETAILS_STEM))
        found = [(row, result_of_row(row)) for row in read_rows(result, RESULT_HEADER)]
        rows = [row for row, known in found if known is not None]
        done = {known.key: known for _, known in found if known is not None}
        kept = [row for row in read_rows(details, DETAILS_HEADER) if _key(_call_of(row[0]), row) in done]
        _write(details, DETAILS_HEADER, kept)
        _write(result, RESULT_HEADER, rows)
        return cls(result, details, done)

    def __enter__(self) -> ResultFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()

    def add(self, result: CaseResult) -> None:
        """Write the rows of one API; they are in the files when this returns."""
        try:
            self._details.writerows(map(guarded, detail_rows(result)))
            self._files[0].flush()
            self._result.writerow(guarded(result_row(result)))
            self._files[1].flush()
        except OSError as error:
            raise RunWriteError(self.result, reason_of(error)) from None


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as error:
        raise RunWriteError(path, reason_of(error)) from None


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _key(name: str | None, row: Sequence[str]) -> CallKey | None:
    """Return the call that a row belongs to; None where its last cells are no step and rank."""
    step, rank = row[-2:]
    is_whole = name is not None and step.isdecimal() and rank.isdecimal()
    return CallKey(name or "", int(step), int(rank)) if is_whole else None


def _call_of(item: str) -> str | None:
    """Return the call that a row of the details belongs to."""
    try:
        record, _ = split_item(item)
    except RecordNameError:
        return None
    return f"{record.family}.{record.call}"
