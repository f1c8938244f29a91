"""Makes the parts of a workbook around its rows: sheets, header, widths, filter and cell formats, by xlsxwriter.

xlsxwriter writes the workbook with the header alone; `Shell` takes it apart so that rows can be put in.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence

import msgspec
import xlsxwriter

from torchparity.report.workbook.rows import column_name

_FILLS = {"red": "#FF0000", "yellow": "#FFFF00"}
_DIMENSION = re.compile(rb'<dimension ref="[^"]*"/>')
_SAMPLE = re.compile(rb'<c r="A(?!1")\d+" s="(\d+)"')
_SHEET = "xl/worksheets/sheet{}.xml"


class SheetShell(msgspec.Struct, frozen=True):
    """The text before and after the rows of data in the XML of a sheet."""

    file: str
    before: bytes
    after: bytes


class SheetHead(msgspec.Struct, frozen=True):
    """The name of a sheet, its columns with their widths, and how many rows of data it will have."""

    name: str
    columns: Sequence[str]
    widths: Sequence[int]
    rows: int


class Shell(msgspec.Struct, frozen=True):
    """A workbook without rows: its sheets, its other files, and the numbers of the colours' cell formats."""

    sheets: list[SheetShell]
    others: dict[str, bytes]
    styles: dict[str, int]


def make_shell(title: str, heads: Sequence[SheetHead]) -> Shell:
    """Return a workbook with these sheets."""
    with zipfile.ZipFile(io.BytesIO(_workbook(title, heads))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    names = [_SHEET.format(number) for number in range(1, len(heads) + 1)]
    styles = dict(zip(_FILLS, map(int, _SAMPLE.findall(files[names[0]])), strict=True))
    sheets = []
    for name, head in zip(names, heads, strict=True):
        extent = f'<dimension ref="A1:{column_name(len(head.columns) - 1)}{head.rows + 1}"/>'
        content = _DIMENSION.sub(extent.encode(), files.pop(name), count=1)
        sheets.append(
            SheetShell(name, content[: content.index(b"</row>") + 6], content[content.index(b"</sheetData>") :])
        )
    return Shell(sheets, files, styles)


def _workbook(title: str, heads: Sequence[SheetHead]) -> bytes:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True}) as book:
        book.set_properties({"title": title})
        bold = book.add_format({"bold": True})
        fills = [book.add_format({"bg_color": colour}) for colour in _FILLS.values()]
        for head in heads:
            sheet = book.add_worksheet(head.name)
            for place, (name, width) in enumerate(zip(head.columns, head.widths, strict=True)):
                sheet.set_column(place, place, width)
                sheet.write_string(0, place, name, bold)
            sheet.freeze_panes(1, 0)
            sheet.autofilter(0, 0, head.rows, len(head.columns) - 1)
            for row, fill in enumerate(fills, 1):  # so that the formats are kept; the rows of data replace them
                sheet.write_blank(row, 0, None, fill)
    return file.getvalue()
