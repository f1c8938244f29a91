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
    Place,
    detail_rows,
    guarded,
    read_rows,
    result_of_row,
    result_row,
    tells_places,
    without_place,
)
from torchparity.errors import ConfigError, RecordNameError, RunWriteError
from torchparity.naming import split_item
from torchparity.whole_file import reason_of, whole_file

RESULT_STEM = "accuracy_checking_result"
DETAILS_STEM = "accuracy_checking_details"


class ResultFiles:
    """The two files of one check, open for more rows; `done` has the results that they hold, by call.

    They say of each row which step and rank it is of, unless all are of one `place`.
    """

    def __init__(
        self, result: Path, details: Path, done: Mapping[CallKey, CaseResult], *, tells_places: bool = True
    ) -> None:
        self.result, self.details, self.done, self._tells_places = result, details, done, tells_places
        self._files = [_opened(details), _opened(result)]
        self._details, self._result = (csv.writer(file, lineterminator="\n") for file in self._files)

    @classmethod
    def new(cls, folder: Path, place: Place | None = None) -> ResultFiles:
        """Begin two files in a folder, in place of those of an earlier check."""
        result, details = folder / f"{RESULT_STEM}.csv", folder / f"{DETAILS_STEM}.csv"
        for path, header in ((details, DETAILS_HEADER), (result, RESULT_HEADER)):
            _write(path, header, [], tells_places=place is None)
        return cls(result, details, {}, tells_places=place is None)

    @classmethod
    def continued(cls, result: Path, place: Place | None = None) -> ResultFiles:
        """Go on with the files of an interrupted check: `result` names the one with a row for each API."""
        if RESULT_STEM not in result.name:
            raise ConfigError(f"-csv_path {result} is not a file named {RESULT_STEM}….csv, which a check leaves.")
        details = result.with_name(result.name.replace(RESULT_STEM, DETAILS_STEM))
        found = [(row, result_of_row(row)) for row in read_rows(result, RESULT_HEADER, place or (0, 0))]
        rows = [row for row, known in found if known is not None]
        done = {known.key: known for _, known in found if known is not None}
        items = read_rows(details, DETAILS_HEADER, place or (0, 0))
        kept = [row for row in items if _key(_call_of(row[0]), row) in done]
        tells = place is None or tells_places(result)
        _write(details, DETAILS_HEADER, kept, tells_places=tells)
        _write(result, RESULT_HEADER, rows, tells_places=tells)
        return cls(result, details, done, tells_places=tells)

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
            self._details.writerows(_cut([*map(guarded, detail_rows(result))], tells_places=self._tells_places))
            self._files[0].flush()
            self._result.writerows(_cut([guarded(result_row(result))], tells_places=self._tells_places))
            self._files[1].flush()
        except OSError as error:
            raise RunWriteError(self.result, reason_of(error)) from None


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as error:
        raise RunWriteError(path, reason_of(error)) from None


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]], *, tells_places: bool) -> None:
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(_cut([header, *rows], tells_places=tells_places))


def _cut(rows: Sequence[Sequence[str]], *, tells_places: bool) -> Sequence[Sequence[str]]:
    return rows if tells_places else [without_place(row) for row in rows]


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
