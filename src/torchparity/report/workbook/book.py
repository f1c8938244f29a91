"""Writes a workbook of one or more sheets: the shell by xlsxwriter, the rows by polars."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from torchparity.report.cells import as_text
from torchparity.report.workbook.rows import RowMaker
from torchparity.report.workbook.shell import SheetHead, SheetShell, Shell, make_shell
from torchparity.whole_file import whole_file

MOST_ROWS = 1_048_575  # of data in a sheet of Excel, the header apart
_ROWS_AT_ONCE = 10_000
_ROWS_MEASURED = 300
_NARROWEST, _WIDEST = 8, 60
_ZIP64_FROM = (1 << 31) - (1 << 20)  # bytes of a sheet; room is left for what follows the rows


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """A sheet of at most `MOST_ROWS` rows of text, numbers, booleans and None.

    A cell of the columns in `numeric` that reads as a number is one; in the columns in `booleans` the words True and
    False are Excel's own. `colours` has None, "red" or "yellow" for each row, or is empty.
    """

    name: str
    frame: Any
    numeric: frozenset[str] = frozenset()
    booleans: frozenset[str] = frozenset()
    colours: Sequence[str | None] = ()


class CutCell(msgspec.Struct, frozen=True):
    """A cell that was longer than Excel allows: the number of its sheet from 1, its column's place and its row."""

    sheet: int
    column: int
    row: int


def write_book(path: Path, title: str, sheets: Sequence[Sheet]) -> list[CutCell]:
    """Write the sheets as one workbook, whole or not at all; return the cells that had to be cut."""
    heads = [SheetHead(sheet.name, sheet.frame.columns, _widths(sheet.frame), sheet.frame.height) for sheet in sheets]
    shell = make_shell(title, heads)
    with whole_file(path) as temporary:
        try:
            return _fill(temporary, shell, sheets, zip64=False)
        except zipfile.LargeZipFile:
            # It has to be known beforehand, and Excel offers to repair files that have it without need.
            return _fill(temporary, shell, sheets, zip64=True)


def _fill(path: Path, shell: Shell, sheets: Sequence[Sheet], *, zip64: bool) -> list[CutCell]:
    cut: list[CutCell] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        for name, content in shell.others.items():
            book.writestr(name, content)
        for number, sheet in enumerate(sheets):
            maker = RowMaker(sheet.frame.schema, sheet.numeric, shell.styles, sheet.booleans)
            _write_sheet(book, shell.sheets[number], _ahead(_rows(sheet, maker)), zip64)
            cut += [CutCell(number + 1, column, row) for column, row in maker.cut]
    return cut


def _write_sheet(book: zipfile.ZipFile, shell: SheetShell, rows: Iterator[bytes], zip64: bool) -> None:
    with book.open(shell.file, "w", force_zip64=zip64) as file:
        written = file.write(shell.before)
        for part in rows:
            if not zip64 and written + len(part) > _ZIP64_FROM:
                raise zipfile.LargeZipFile
            written += file.write(part)
        file.write(shell.after)


def _rows(sheet: Sheet, maker: RowMaker) -> Iterator[bytes]:
    for start in range(0, sheet.frame.height, _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        yield maker.xml(sheet.frame[start:stop], sheet.colours[start:stop], first_row=start + 2)


def _ahead(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts and make the next one meanwhile: both zlib and polars let go of the interpreter."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = thread.submit(next, parts, None)
            yield part


def _widths(frame: pl.DataFrame) -> list[int]:
    """Return column widths that fit the header and the first rows, within reason."""
    first = frame.head(_ROWS_MEASURED)
    longest = first.select(as_text(name, dtype).str.len_chars().max() for name, dtype in frame.schema.items())
    measured = longest.row(0) if first.height else (0,) * frame.width
    wanted = [max(len(name) + 3, longest_cell or 0) for name, longest_cell in zip(frame.columns, measured, strict=True)]
    return [min(max(width + 1, _NARROWEST), _WIDEST) for width in wanted]
