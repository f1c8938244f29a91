"""parquet: columns with a type.

A column of text that the table calls numeric is written as numbers if every cell of it is a
number, nan, inf, -inf or nothing: whole numbers if all are whole, else floats. With one word in
it ("N/A") it is written as text. Row colours are a last column `colour`, if there are any.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from torchparity.records import Table
from torchparity.report.cells import as_numbers, coloured_frame
from torchparity.report.formats import TableFormat, Written
from torchparity.whole_file import whole_file


class ParquetTables:
    """Tables as parquet, for polars, pandas, duckdb."""

    suffix = ".parquet"

    def write(self, table: Table, path: Path) -> Written:
        """Write the table as one parquet file."""
        frame = coloured_frame(table)
        frame = frame.with_columns(as_numbers(frame[name]) for name in frame.columns if name in table.numeric)
        with whole_file(path) as temporary:
            try:
                frame.write_parquet(temporary)
            except pl.exceptions.ComputeError as error:  # how polars reports a full disk here
                raise OSError(str(error)) from error
        return Written([path], [])


PLUGIN: TableFormat = ParquetTables()
