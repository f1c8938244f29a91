"""Tables to write, and how tests read them back."""

from __future__ import annotations

import csv
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from torchparity import plugins
from torchparity.records import Table
from torchparity.report.formats import Written

FORMATS = plugins.names("report.formats")
COLUMNS: dict[str, list[Any]] = {
    "NPU Name": ["Torch.add.0.forward.input.0", "[2, 3]", "", None, "N/A", "ж≠𝄞"],
    "Max diff": ["0.25", "N/A", "nan", None, "9007199254740993", "1e999"],
    "MaxRelativeErr": ["1", "-2", None, "3", "4", "9007199254740993"],
    "MinRelativeErr": ["11.19%", "0.5", "inf", "-inf", "-1e-07", "007"],
    "NPU max": [0.1 + 0.2, math.nan, math.inf, -math.inf, None, -5e-324],
    "NPU min": [1, 2, None, -4, 5, 2**53 + 1],
    "NPU MD5": ["12345678", "1e234567", "00000000", "N/A", "ffffffff", "1"],
    "Requires_grad Consistent": [True, False, None, True, True, False],
    "Err_message": [None] * 6,
}
NUMERIC = frozenset(["Max diff", "MaxRelativeErr", "MinRelativeErr"])


def table_of(
    columns: Mapping[str, Any] = COLUMNS, colours: Sequence[str | None] = (), numeric: frozenset[str] = NUMERIC
) -> Table:
    """Return a table of these columns; without any, of one of each kind of cell."""
    return Table(frame=pl.DataFrame(columns), title="compare_result", numeric=numeric, colours=list(colours))


def write(name: str, table: Table, folder: Path) -> Written:
    """Write the table in one format as `table` with its suffix."""
    plugin = plugins.load("report.formats", name)
    return plugin.write(table, folder / f"table{plugin.suffix}")


def read_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def sheet_xml(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read("xl/worksheets/sheet1.xml")


def read_sheet(sheet: Any) -> list[list[Any]]:
    return [[unescaped(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]


def unescaped(cell: Any) -> Any:
    """Excel reads `_x0041_` as A; openpyxl leaves that to its caller."""
    return re.sub("_x([0-9A-F]{4})_", lambda code: chr(int(code[1], 16)), cell) if isinstance(cell, str) else cell


def rows_of(columns: dict[str, list[object]]) -> list[list[object]]:
    return [list(row) for row in zip(*columns.values(), strict=True)]
