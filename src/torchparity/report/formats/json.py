"""json: {"columns": [...], "rows": [[...], ...]}, a row a line.

Numbers are numbers, also where the column holds words too and the table calls it numeric. nan and
the infinities are the words "nan", "inf", "-inf", since strict JSON has no other way; nothing is
null. Row colours are a last column `colour`, if there are any.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from torchparity.records import Table, number_to_json
from torchparity.report.cells import coloured_frame, is_number
from torchparity.report.formats import TableFormat, Written
from torchparity.whole_file import whole_file

_ROWS_AT_ONCE = 20_000
_ENCODER = msgspec.json.Encoder()


class JsonTables:
    """Tables as strict JSON; memory is bounded by a few thousand rows, whatever the table."""

    suffix = ".json"

    def write(self, table: Table, path: Path) -> Written:
        """Write the table as one JSON file."""
        frame = coloured_frame(table)
        with whole_file(path) as temporary, temporary.open("wb") as file:
            file.write(b'{"columns": ' + _ENCODER.encode(frame.columns) + b', "rows": [')
            for number, part in enumerate(frame.iter_slices(_ROWS_AT_ONCE)):
                columns = [_cells(part[name], numeric=name in table.numeric) for name in part.columns]
                lines = _ENCODER.encode_lines(zip(*columns, strict=True)).rstrip(b"\n")
                # A newline inside a cell is encoded, so these are the ends of rows.
                file.write((b",\n" if number else b"\n") + lines.replace(b"\n", b",\n"))
            file.write(b"\n]}\n")
        return Written([path], [])


def _cells(column: pl.Series, *, numeric: bool) -> list[Any]:
    cells = column.to_list()
    if column.dtype.is_float() and not column.is_finite().all():
        return [number_to_json(cell) for cell in cells]
    if column.dtype == pl.String and numeric:
        are_numbers = column.to_frame().select(is_number(column.name, column.dtype, numeric=True)).to_series()
        # The text itself is the number: a whole number of 19 digits keeps them all.
        return [msgspec.Raw(cell) if number else cell for cell, number in zip(cells, are_numbers, strict=True)]
    return cells


PLUGIN: TableFormat = JsonTables()
