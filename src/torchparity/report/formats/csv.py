"""csv: UTF-8 without a byte order mark, lines end in a newline, nothing is an empty cell."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from torchparity.records import Table
from torchparity.report.cells import as_text, plain_frame
from torchparity.report.formats import TableFormat, Written
from torchparity.whole_file import whole_file


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
        # polars sets "" apart from nothing with a pair of quotes, which clutters every blank cell.
        return column.set(column == "", None) if (column == "").any() else column
    if column.dtype == pl.Boolean or (column.dtype.is_float() and column.is_nan().any()):
        return column.to_frame().select(as_text(column.name, column.dtype)).to_series()
    return column


PLUGIN: TableFormat = CsvTables()
