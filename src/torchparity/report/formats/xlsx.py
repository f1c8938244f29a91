"""xlsx: for Excel and its like. Header in bold and frozen, a filter on every column, rows in colour.

Numbers are numbers, also in the text columns that the table calls numeric; nan, inf and -inf are
words, since Excel has no such numbers, and so are booleans. Text is never a formula, whatever it
begins with. What a sheet cannot hold goes on in Sheet2, Sheet3, …; longer cells than Excel allows are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchparity.records import Table
from torchparity.report.cells import plain_frame
from torchparity.report.formats import TableFormat, Written
from torchparity.report.workbook.book import MOST_ROWS, CutCell, Sheet, write_book
from torchparity.report.workbook.rows import MOST_CHARACTERS


class XlsxTables:
    """Tables as workbooks."""

    suffix = ".xlsx"

    def write(self, table: Table, path: Path) -> Written:
        """Write the table as one workbook, split over sheets where it is too long for one."""
        frame = plain_frame(table)
        sheets = [
            Sheet(
                name=f"Sheet{number}",
                frame=part,
                numeric=table.numeric,
                colours=table.colours[(number - 1) * MOST_ROWS : number * MOST_ROWS],
            )
            for number, part in enumerate(list(frame.iter_slices(MOST_ROWS)) or [frame], 1)
        ]
        cut = write_book(path, table.title, sheets)
        return Written([path], [*_about_sheets(frame.height, len(sheets)), *_about_cut(cut, frame.columns)])


def _about_sheets(rows: int, sheets: int) -> list[str]:
    if sheets == 1:
        return []
    return [f"{rows:,} rows are more than an Excel sheet holds; they are in Sheet1 to Sheet{sheets}."]


def _about_cut(cut: Sequence[CutCell], columns: Sequence[str]) -> list[str]:
    if not cut:
        return []
    first = cut[0]
    return [
        f"{len(cut):,} cell{'s are' if len(cut) > 1 else ' is'} longer than the {MOST_CHARACTERS:,} characters that "
        f"Excel allows and cut short, first {columns[first.column]} in row {first.row} of Sheet{first.sheet}."
    ]


PLUGIN: TableFormat = XlsxTables()
