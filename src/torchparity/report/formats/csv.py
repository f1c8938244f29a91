"""csv: UTF-8 without a byte order mark, lines end in a newline, nothing is an empty cell.

Names come from files that others wrote, and spreadsheets run text that begins like a formula: such text gets an
apostrophe in front, as OWASP recommends. A number keeps its sign.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from torchparity.records import Table
from torchparity.report.cells import as_text, plain_frame
from torchparity.report.formats import TableFormat, Written
from torchparity.whole_file import whole_file

_FORMULA = r"^[=+\-@\t\r\n]"


class CsvTables:
    """Tables as comma-separated text; row colours have no place in it."""

    suffix = ".csv"

    def write(self, table: Table, path: Path) -> Written:
        """Write the table as one csv file."""
        frame = plain_frame(table)
        with whole_file(path) as temporary:
            frame.select(_cells(frame[name]) for name in frame.columns).write_csv(temporary)
        return Written([path], [])


def _cells(column: pl.Series) -> pl.Series:
    """Return the column as polars writes it the way we want it; most are that already."""
    if column.dtype == pl.String:
        guarded = _guarded(column)
        # polars sets "" apart from nothing with a pair of quotes, which clutters every blank cell.
        return guarded.set(guarded == "", None) if (guarded == "").any() else guarded
    if column.dtype == pl.Boolean or (column.dtype.is_float() and column.is_nan().any()):
        return column.to_frame().select(as_text(column.name, column.dtype)).to_series()
    return column


def _guarded(column: pl.Series) -> pl.Series:
    """Return a column of text with an apostrophe before what a spreadsheet would run; numbers stay as they are."""
    # Comparing is ten times faster than looking for a pattern, and leaves little but negative numbers.
    suspects = (column < "0") | ((column >= "=") & (column < "A"))
    if not suspects.any() or not column.filter(suspects).cast(pl.Float64, strict=False).null_count():
        return column
    formulas = column.str.contains(_FORMULA).fill_null(False) & column.cast(pl.Float64, strict=False).is_null()
    return ("'" + column).zip_with(formulas, column).alias(column.name)


PLUGIN: TableFormat = CsvTables()
