"""Reads the table of a result, in whichever format it was written, as text: the columns that merging needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import polars as pl

from torchparity.errors import DamagedFileError
from torchparity.merging.modes import KEPT, NAME
from torchparity.merging.workbook import SheetRows, read_sheets
from torchparity.whole_file import reason_of

_GUARDED = r"^'([=+\-@\t\r\n])"  # our csv keeps spreadsheets from running text as a formula
_WHOLE = re.compile(r"-?\d+", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_MOST_EXACT = 1e15  # whole numbers beyond are written with an exponent
_ERRORS = (pl.exceptions.PolarsError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_table(path: Path) -> pl.DataFrame:
    """Return the columns that merging needs as text, numbers in one spelling, nothing as null."""
    try:
        frame = _READERS[path.suffix](path)
    except OSError as error:
        raise DamagedFileError(path, f"it cannot be read ({reason_of(error)})") from None
    except pl.exceptions.PanicException:  # derived from BaseException
        raise DamagedFileError(path, "its parts do not fit together") from None
    except _ERRORS as error:
        reason = (str(error).splitlines() or [""])[0]
        raise DamagedFileError(path, f"it is no {path.suffix[1:]} file, or cut short ({reason})") from None
    return frame.select(_one_spelling(frame[name]) for name in frame.columns)


class _JsonTable(msgspec.Struct):
    columns: list[str]
    rows: list[list[str | int | float | bool | None]]


def _read_csv(path: Path) -> pl.DataFrame:
    if path.stat().st_size == 0:
        return pl.DataFrame()
    header = pl.read_csv(path, n_rows=0, infer_schema=False).columns
    kept = [name for name in header if name in KEPT]
    if not kept:
        return pl.DataFrame()
    return pl.read_csv(path, columns=kept, infer_schema=False).with_columns(pl.all().str.replace(_GUARDED, "$1"))


def _read_json(path: Path) -> pl.DataFrame:
    table = msgspec.json.decode(path.read_bytes(), type=_JsonTable)
    return _frame(table.columns, (dict(enumerate(row)) for row in table.rows))


def _read_parquet(path: Path) -> pl.DataFrame:
    kept = [name for name in pl.read_parquet_schema(path) if name in KEPT]
    return pl.read_parquet(path, columns=kept)


def _read_xlsx(path: Path) -> pl.DataFrame:
    """Return the table of a workbook; one that is too long for a sheet goes on in the next, under the same header."""
    frames = [frame for frame in read_sheets(path, _sheet_frame) if NAME in frame.columns]
    return pl.concat(frames or [pl.DataFrame()])


def _sheet_frame(rows: SheetRows) -> pl.DataFrame:
    header = next(rows, {})
    rows.keep(place for place, name in header.items() if name in KEPT)
    return _frame([header.get(place, "") for place in range(max(header, default=-1) + 1)], rows)


def _frame(columns: Sequence[str], rows: Iterator[Mapping[int, object]]) -> pl.DataFrame:
    """Return the kept columns as text; a row has cells by the place of their column."""
    places = {name: place for place, name in enumerate(columns) if name in KEPT}
    cells: list[list[str | None]] = [[] for _ in places]
    of_columns = list(zip(cells, places.values(), strict=True))
    for row in rows:
        for kept, place in of_columns:
            cell = row.get(place)
            kept.append(None if cell is None or cell == "" else str(cell))
    return pl.DataFrame({name: pl.Series(kept, dtype=pl.String) for name, kept in zip(places, cells, strict=True)})


def _one_spelling(column: pl.Series) -> pl.Series:
    """Return a column as text in which 4, 4.0 and 4.00 are all "4", as Excel has no other."""
    if column.dtype == pl.Boolean:
        return column.replace_strict({True: "True", False: "False"}, return_dtype=pl.String)
    texts = column.cast(pl.String)
    if column.name == NAME:
        return texts
    spelt = {text: _spelt(text) for text in texts.unique() if text is not None}
    changed = {text: other for text, other in spelt.items() if text != other}
    return texts.replace(changed) if changed else texts


def _spelt(text: str) -> str:
    if _WHOLE.fullmatch(text) or not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    if number.is_integer() and abs(number) < _MOST_EXACT:
        return str(int(number))
    return repr(number)


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": _read_csv,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_xlsx,
}
