"""Reading accuracy_checking_details.csv, ours or msprobe's, whose headers are in Chinese: by place, not by name."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torchparity.check.judging.judgement import DETAILS_HEADER, METRICS, Metrics
from torchparity.errors import DamagedFileError, RecordNameError, RunNotFoundError
from torchparity.naming import RecordName, split_item
from torchparity.whole_file import reason_of

_COLUMNS = 23  # that ours and msprobe's have in common
_FIRST_METRIC = 4
_STATUS, _MESSAGE = DETAILS_HEADER.index("Status"), DETAILS_HEADER.index("Message")


_PLACE_COLUMNS = ("Step", "Rank")  # msprobe's files have none


class Place(NamedTuple):
    """Step and rank of a result, as the file has them."""

    step: str
    rank: str


NO_PLACE = Place("", "")


@dataclass(frozen=True, slots=True)
class DetailsRow:
    """One result of a check, as its details hold it."""

    name: str
    record: RecordName
    dtype: str
    status: str
    metrics: Metrics
    place: Place = NO_PLACE

    @property
    def call(self) -> str:
        """The call that the result is of: `Functional.conv2d.0`."""
        return f"{self.record.family}.{self.record.call}"


def read_details(path: Path) -> list[DetailsRow]:
    """Return the rows of a details file; raise where it is none. Rows whose name is no result's are left out."""
    rows = _cells(path)
    if not rows or len(rows[0]) < _COLUMNS or rows[0][0].strip() != DETAILS_HEADER[0]:
        raise DamagedFileError(path, f"it is not a details file, whose {_COLUMNS} columns begin with 'API Name'")
    header = [cell.strip() for cell in rows[0]]
    columns = [header.index(name) for name in _PLACE_COLUMNS if name in header]
    found = (_row(cells, columns) for cells in rows[1:] if len(cells) >= _STATUS + 1)
    return [row for row in found if row is not None]


def _cells(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.reader(file))
    except FileNotFoundError:
        raise RunNotFoundError(f"{path} does not exist; name the accuracy_checking_details.csv of a check.") from None
    except OSError as error:
        raise RunNotFoundError(f"{path} cannot be read: {reason_of(error)}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamagedFileError(path, f"it cannot be read as csv ({error})") from None


def _row(cells: list[str], columns: list[int]) -> DetailsRow | None:
    name = cells[0].strip()
    try:
        record, _ = split_item(name)
    except RecordNameError:
        return None
    numbers = cells[_FIRST_METRIC : _FIRST_METRIC + len(METRICS)]
    metrics = Metrics(**{field: _number(cell) for field, cell in zip(METRICS, numbers, strict=True)})
    has_place = len(columns) == len(_PLACE_COLUMNS) and len(cells) > max(columns)
    place = Place(*(cells[column].strip() for column in columns)) if has_place else NO_PLACE
    return DetailsRow(name, record, cells[2].strip(), cells[_STATUS].strip().lower(), metrics, place)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # a blank
        return None
