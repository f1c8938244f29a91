"""Rows of the two result files, as text."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from torchparity.check.judging import DETAILS_HEADER as JUDGEMENT_HEADER
from torchparity.check.judging import Status
from torchparity.check.results.case_result import CaseResult
from torchparity.errors import DamagedFileError, RunNotFoundError

PLACE_COLUMNS = ("Step", "Rank")  # last, and only in files about several steps or ranks
Place = tuple[int, int]  # a step and a rank
RESULT_HEADER = ("API name", "Forward Test Success", "Backward Test Success", "Message", *PLACE_COLUMNS)
DETAILS_HEADER = (*JUDGEMENT_HEADER, *PLACE_COLUMNS)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def result_row(result: CaseResult) -> list[str]:
    """Return the row of an API; a direction that the run has not is a blank."""
    return [result.name, str(result.forward or ""), str(result.backward or ""), result.message, *_place(result)]


def result_of_row(row: Sequence[str]) -> CaseResult | None:
    """Return the result that a row tells, without its details; None where its cells are no statuses and numbers."""
    name, forward, backward, message, step, rank = row
    try:
        statuses = Status(forward), Status(backward) if backward else None
        return CaseResult(name, *statuses, message, step=int(step), rank=int(rank))
    except ValueError:
        return None


def detail_rows(result: CaseResult) -> list[list[str]]:
    """Return the rows of an API's outputs and gradients."""
    return [[*judgement.row(), *_place(result)] for judgement in result.details]


def guarded(row: Iterable[str]) -> list[str]:
    """Return cells that no spreadsheet runs: text that begins like a formula gets an apostrophe in front."""
    return [f"'{cell}" if cell.startswith(_FORMULA) and not _is_number(cell) else cell for cell in row]


def without_place(cells: Sequence[str]) -> Sequence[str]:
    """Return a row, or a header, of a file about one step of one rank."""
    return cells[: -len(PLACE_COLUMNS)]


def read_rows(path: Path, header: Sequence[str], place: Place = (0, 0)) -> list[list[str]]:
    """Return the whole rows of a result file; the last one may have been cut short and is then left out.

    Where the file is about one step of one rank and does not say which, the rows get `place`.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except FileNotFoundError:
        raise RunNotFoundError(f"{path} does not exist, so there is nothing to continue.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DamagedFileError(path, f"it cannot be read as csv ({error})") from None
    found = tuple(rows[0]) if rows else ()
    if found not in (tuple(header), tuple(without_place(header))):
        raise DamagedFileError(path, f"its header is not that of a check, which begins with {header[0]!r}")
    whole = [row for row in rows[1:] if len(row) == len(found)]
    return whole if len(found) == len(header) else [[*row, *map(str, place)] for row in whole]


def tells_places(path: Path) -> bool:
    """Tell whether a result file says of each row which step and rank it is of."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return tuple(next(csv.reader(file), ()))[-len(PLACE_COLUMNS) :] == PLACE_COLUMNS


def _place(result: CaseResult) -> list[str]:
    return [str(result.step), str(result.rank)]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
