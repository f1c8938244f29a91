"""The runs, tables and workbooks of four ranks that msprobe 8.2.0 made, unpacked once for a test file."""

from __future__ import annotations

import tarfile
from pathlib import Path

import openpyxl

from tests.support.golden import RANKS


def unpacked(folder: Path, *parts: str) -> Path:
    """Unpack the named folders of the archive; return the folder they are in."""
    with tarfile.open(RANKS) as archive:
        wanted = [entry for entry in archive if entry.name.removeprefix("./").split("/")[0] in parts]
        archive.extractall(folder, wanted, filter="data")
    return folder


def cells(path: Path) -> dict[str, list[list[object]]]:
    """Return the cells of a workbook by sheet, row and column."""
    sheets = openpyxl.load_workbook(path).worksheets
    return {sheet.title: [list(row) for row in sheet.iter_rows(values_only=True)] for sheet in sheets}
