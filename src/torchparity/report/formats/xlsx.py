"""xlsx: for Excel and its like. Header in bold and frozen, a filter on every column, rows in colour.

Numbers are numbers, also in the text columns that the table calls numeric; nan, inf and -inf are
words, since Excel has no such numbers, and so are booleans. Text is never a formula, whatever it
begins with. What a sheet cannot hold goes on in Sheet2, Sheet3, …; longer cells than Excel allows are cut.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from torchparity.records import Table
from torchparity.report.cells import as_text, plain_frame
from torchparity.report.formats import TableFormat, Written
from torchparity.report.workbook.rows import MOST_CHARACTERS, RowMaker
from torchparity.report.workbook.shell import SheetShell, Shell, make_shell
from torchparity.whole_file import whole_file

MOST_ROWS = 1_048_575  # of data in a sheet of Excel, the header apart
_ROWS_AT_ONCE = 10_000
_ROWS_MEASURED = 300
_NARROWEST, _WIDEST = 8, 60
_ZIP64_FROM = (1 << 31) - (1 << 20)  # bytes of a sheet; room is left for what follows the rows
_Place = tuple[int, int, int]  # sheet, column, row


class XlsxTables:
    """Tables as workbooks."""

    suffix = ".xlsx"

    def write(self, table: Table, path: Path) -> Written:
        """Write the table as one workbook, split over sheets where it is too long for one."""
        frame = plain_frame(table)
        sheets = list(frame.iter_slices(MOST_ROWS)) or [frame]
        shell = make_shell(table.title, frame.columns, _widths(frame), [sheet.height for sheet in sheets])
        with whole_file(path) as temporary:
            try:
                cut = _write_book(temporary, shell, sheets, table, zip64=False)
            except zipfile.LargeZipFile:
                # It has to be known beforehand, and Excel offers to repair files that have it without need.
                cut = _write_book(temporary, shell, sheets, table, zip64=True)
        return Written([path], [*_about_sheets(frame.height, len(sheets)), *_about_cut(cut, frame.columns)])


def _write_book(path: Path, shell: Shell, sheets: list[pl.DataFrame], table: Table, *, zip64: bool) -> list[_Place]:
    """Write the workbook; return the cells that had to be cut."""
    cut: list[_Place] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        for name, content in shell.others.items():
            book.writestr(name, content)
        for number, sheet in enumerate(sheets):
            maker = RowMaker(sheet.schema, table.numeric, shell.styles)
            rows = _ahead(_rows(sheet, table.colours[number * MOST_ROWS :], maker))
            _write_sheet(book, shell.sheets[number], rows, zip64)
            cut += [(number + 1, column, row) for column, row in maker.cut]
    return cut


def _write_sheet(book: zipfile.ZipFile, shell: SheetShell, rows: Iterator[bytes], zip64: bool) -> None:
    with book.open(shell.file, "w", force_zip64=zip64) as file:
        written = file.write(shell.before)
        for part in rows:
            if not zip64 and written + len(part) > _ZIP64_FROM:
                raise zipfile.LargeZipFile
            written += file.write(part)
        file.write(shell.after)


def _rows(sheet: pl.DataFrame, colours: list[str | None], maker: RowMaker) -> Iterator[bytes]:
    for start in range(0, sheet.height, _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        yield maker.xml(sheet[start:stop], colours[start : min(stop, sheet.height)], first_row=start + 2)


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


def _about_sheets(rows: int, sheets: int) -> list[str]:
    if sheets == 1:
        return []
    return [f"{rows:,} rows are more than an Excel sheet holds; they are in Sheet1 to Sheet{sheets}."]


def _about_cut(cut: list[_Place], columns: list[str]) -> list[str]:
    if not cut:
        return []
    sheet, column, row = cut[0]
    return [
        f"{len(cut):,} cell{'s are' if len(cut) > 1 else ' is'} longer than the {MOST_CHARACTERS:,} characters that "
        f"Excel allows and cut short, first {columns[column]} in row {row} of Sheet{sheet}."
    ]


PLUGIN: TableFormat = XlsxTables()
