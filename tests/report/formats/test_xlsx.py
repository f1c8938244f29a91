"""xlsx: real numbers, colours, several sheets, and what Excel cannot hold."""

from __future__ import annotations

import math
from pathlib import Path

import openpyxl

from tests.support.tables import COLUMNS, FORMATS, read_csv, read_sheet, rows_of, sheet_xml, table_of, write
from torchparity.report.formats import xlsx
from torchparity.report.workbook import book as books


def test_xlsx_holds_every_cell_and_real_numbers(tmp_path):
    written = write("xlsx", table_of(), tmp_path)

    header, *rows = read_sheet(openpyxl.load_workbook(tmp_path / "table.xlsx")["Sheet1"])
    expected = COLUMNS | {
        "NPU Name": [name or None for name in COLUMNS["NPU Name"]],
        "Max diff": [0.25, "N/A", "nan", None, 9007199254740993, "1e999"],
        "MaxRelativeErr": [1, -2, None, 3, 4, 9007199254740993],
        "MinRelativeErr": ["11.19%", 0.5, "inf", "-inf", -1e-07, "007"],
        "NPU max": [0.1 + 0.2, "nan", "inf", "-inf", None, -5e-324],
        "Requires_grad Consistent": ["True", "False", None, "True", "True", "False"],
    }
    assert (header, rows) == (list(COLUMNS), rows_of(expected))
    assert written.notes == []


def test_xlsx_is_ready_to_be_read(tmp_path):
    write("xlsx", table_of({"Name": ["short", "x" * 500, "y", "z"], "Cosine": [1.0, 0.5, 0.25, 0]}), tmp_path)

    book = openpyxl.load_workbook(tmp_path / "table.xlsx")
    sheet = book["Sheet1"]
    widths = {letter: sheet.column_dimensions[letter].width for letter in "AB"}
    assert (sheet.freeze_panes, sheet.auto_filter.ref, sheet.dimensions) == ("A2", "A1:B5", "A1:B5")
    assert sheet["A1"].font.bold
    assert not sheet["A2"].font.bold
    assert widths["A"] > 50
    assert widths["A"] < 100
    assert 8 < widths["B"] < 20
    assert book.properties.title == "compare_result"
    assert b'<dimension ref="A1:B5"/>' in sheet_xml(tmp_path / "table.xlsx")


def fills(path: Path, sheet: str = "Sheet1") -> list[list[str | None]]:
    rows = list(openpyxl.load_workbook(path)[sheet].iter_rows())
    return [[cell.fill.fgColor.rgb if cell.fill.fill_type else None for cell in row] for row in rows]


def test_coloured_rows_are_coloured_from_end_to_end_blank_cells_too(tmp_path):
    colours = ["red", None, "yellow", "red"]
    write("xlsx", table_of({"a": ["x", "y", None, ""], "b": [None, 2.0, 3.0, math.nan]}, colours), tmp_path)

    red, yellow = ["FFFF0000"] * 2, ["FFFFFF00"] * 2
    assert fills(tmp_path / "table.xlsx") == [[None] * 2, red, [None] * 2, yellow, red]
    assert read_sheet(openpyxl.load_workbook(tmp_path / "table.xlsx").active)[1:] == [
        ["x", None],
        ["y", 2],
        [None, 3],
        [None, "nan"],
    ]


def test_more_rows_than_a_sheet_holds_go_on_in_the_next_and_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(xlsx, "MOST_ROWS", 4)
    monkeypatch.setattr(books, "_ROWS_AT_ONCE", 3)
    colours = ["red" if number in (3, 5, 9) else None for number in range(10)]

    written = write("xlsx", table_of({"a": list(range(10)), "b": ["x"] * 10}, colours), tmp_path)

    book = openpyxl.load_workbook(tmp_path / "table.xlsx")
    assert book.sheetnames == ["Sheet1", "Sheet2", "Sheet3"]
    assert [read_sheet(sheet) for sheet in book] == [
        [["a", "b"], *([number, "x"] for number in numbers)] for numbers in (range(4), range(4, 8), range(8, 10))
    ]
    assert [sheet.auto_filter.ref for sheet in book] == ["A1:B5", "A1:B5", "A1:B3"]
    assert [sheet.freeze_panes for sheet in book] == ["A2"] * 3
    red = [[place for place, row in enumerate(fills(written.files[0], name)) if any(row)] for name in book.sheetnames]
    assert red == [[4], [2], [2]]
    assert written.notes == ["10 rows are more than an Excel sheet holds; they are in Sheet1 to Sheet3."]


def test_a_sheet_of_many_bytes_is_written_too(tmp_path, monkeypatch):
    monkeypatch.setattr(books, "_ZIP64_FROM", 10_000)
    monkeypatch.setattr(books, "_ROWS_AT_ONCE", 10)
    texts = [f"row {number}" for number in range(500)]

    written = write("xlsx", table_of({"a": texts, "b": ["x" * 40_000] + ["x"] * 499}), tmp_path)

    assert [row[0] for row in read_sheet(openpyxl.load_workbook(tmp_path / "table.xlsx").active)] == ["a", *texts]
    assert len(written.notes) == 1
    assert written.notes[0].startswith("1 cell is longer")


def test_a_table_that_fills_a_sheet_exactly_has_one(tmp_path, monkeypatch):
    monkeypatch.setattr(xlsx, "MOST_ROWS", 4)

    written = write("xlsx", table_of({"a": [1, 2, 3, 4]}), tmp_path)

    assert openpyxl.load_workbook(tmp_path / "table.xlsx").sheetnames == ["Sheet1"]
    assert written.notes == []


def test_text_that_is_too_long_for_excel_is_cut_there_alone_and_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(books, "_ROWS_AT_ONCE", 2)
    texts = ["x" * 32_767, "x" * 32_768, "ж" * 20_000, "𝄞" * 20_000]
    for name in FORMATS:
        written = write(name, table_of({"a": ["fits"] * 4, "Err_message": texts}), tmp_path)

    cells = [row[1] for row in read_sheet(openpyxl.load_workbook(tmp_path / "table.xlsx").active)[1:]]
    assert cells == [texts[0], "x" * 32_766 + "…", texts[2], "𝄞" * 16_383 + "…"]
    assert name == "xlsx"
    assert written.notes == [
        "2 cells are longer than the 32,767 characters that Excel allows and cut short, "
        "first Err_message in row 3 of Sheet1."
    ]
    assert [row[1] for row in read_csv(tmp_path / "table.csv")[1:]] == texts
