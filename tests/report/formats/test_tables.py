"""Every format is read back with somebody else's reader and compared cell by cell."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.disks import mounted_disk
from torchparity import plugins
from torchparity.errors import InternalError, RunWriteError
from torchparity.records import Table
from torchparity.report.formats import xlsx
from torchparity.report.workbook import rows

ROOT = Path(__file__).parent.parent.parent
FORMATS = plugins.names("report.formats")
COLUMNS = {
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


def table_of(columns=COLUMNS, colours=(), numeric=NUMERIC) -> Table:
    return Table(frame=pl.DataFrame(columns), title="compare_result", numeric=numeric, colours=list(colours))


def write(name: str, table: Table, folder: Path):
    plugin = plugins.load("report.formats", name)
    return plugin.write(table, folder / f"table{plugin.suffix}")


def read_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def sheet_xml(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read("xl/worksheets/sheet1.xml")


def read_sheet(sheet) -> list[list[object]]:
    return [[unescaped(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]


def unescaped(cell):
    """Excel reads `_x0041_` as A; openpyxl leaves that to its caller."""
    return re.sub("_x([0-9A-F]{4})_", lambda code: chr(int(code[1], 16)), cell) if isinstance(cell, str) else cell


def rows_of(columns: dict[str, list[object]]) -> list[list[object]]:
    return [list(row) for row in zip(*columns.values(), strict=True)]


def test_csv_holds_every_cell(tmp_path):
    written = write("csv", table_of(), tmp_path)

    header, *rows = read_csv(tmp_path / "table.csv")
    words = {math.inf: "inf", -math.inf: "-inf"}
    expected = [
        ["" if cell is None else words.get(cell, str(cell)) for cell in row]
        for row in rows_of(COLUMNS | {"NPU max": [0.1 + 0.2, "nan", math.inf, -math.inf, None, "-5e-324"]})
    ]
    assert (header, rows) == (list(COLUMNS), expected)
    assert (written.files, written.notes) == ([tmp_path / "table.csv"], [])


def test_csv_is_plain_utf8_with_quotes_only_where_needed(tmp_path):
    write("csv", table_of({"a": ["x", "[1, 2]", "", 'say "ж"'], "b": [1.0, 1e-7, math.nan, None]}), tmp_path)

    assert (tmp_path / "table.csv").read_bytes() == 'a,b\nx,1.0\n"[1, 2]",1e-7\n,nan\n"say ""ж""",\n'.encode()


def test_json_holds_every_cell_and_real_numbers(tmp_path):
    write("json", table_of(), tmp_path)

    def refuse(word):
        raise AssertionError(f"{word} is not strict JSON")

    document = json.loads((tmp_path / "table.json").read_text(), parse_constant=refuse)
    expected = COLUMNS | {
        "Max diff": [0.25, "N/A", "nan", None, 9007199254740993, "1e999"],
        "MaxRelativeErr": [1, -2, None, 3, 4, 9007199254740993],
        "MinRelativeErr": ["11.19%", 0.5, "inf", "-inf", -1e-07, "007"],
        "NPU max": [0.1 + 0.2, "nan", "inf", "-inf", None, -5e-324],
    }
    assert document == {"columns": list(COLUMNS), "rows": rows_of(expected)}
    assert isinstance(document["rows"][4][1], int)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9])
def test_json_of_several_parts_is_one_document(tmp_path, monkeypatch, rows):
    monkeypatch.setattr("torchparity.report.formats.json._ROWS_AT_ONCE", 4)

    write("json", table_of({"a": list(range(rows)), "b": ["x\ny"] * rows}), tmp_path)

    document = json.loads((tmp_path / "table.json").read_text())
    assert document == {"columns": ["a", "b"], "rows": [[number, "x\ny"] for number in range(rows)]}


def test_parquet_types_a_column_when_all_its_cells_are_numbers(tmp_path):
    write("parquet", table_of(COLUMNS | {"L2norm diff": ["1", "nan", "-inf", None, "2.5", "1e3"]}), tmp_path)
    write("json", table_of(), tmp_path)

    frame = pl.read_parquet(tmp_path / "table.parquet")
    assert frame["MaxRelativeErr"].to_list() == [1, -2, None, 3, 4, 9007199254740993]
    assert frame["Max diff"].to_list() == COLUMNS["Max diff"]
    assert frame["NPU MD5"].to_list() == COLUMNS["NPU MD5"]
    assert frame["Requires_grad Consistent"].to_list() == COLUMNS["Requires_grad Consistent"]
    assert str(frame["NPU max"].to_list()) == str(COLUMNS["NPU max"])
    assert frame.columns == [*COLUMNS, "L2norm diff"]


def test_parquet_reads_the_words_of_floats_as_floats(tmp_path):
    write("parquet", table_of({"Max diff": ["1", "nan", "-inf", None]}), tmp_path)

    assert str(pl.read_parquet(tmp_path / "table.parquet")["Max diff"].to_list()) == "[1.0, nan, -inf, None]"


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


def test_colours_are_a_column_for_programs_if_there_are_any(tmp_path):
    for name in ("json", "parquet", "csv"):
        write(name, table_of({"a": [1, 2, 3]}, ["red", None, "yellow"]), tmp_path)

    document = json.loads((tmp_path / "table.json").read_text())
    assert document == {"columns": ["a", "colour"], "rows": [[1, "red"], [2, None], [3, "yellow"]]}
    assert pl.read_parquet(tmp_path / "table.parquet")["colour"].to_list() == ["red", None, "yellow"]
    assert read_csv(tmp_path / "table.csv")[0] == ["a"]

    write("json", table_of({"a": [1, 2, 3]}, [None] * 3), tmp_path)
    assert json.loads((tmp_path / "table.json").read_text())["columns"] == ["a"]


def test_more_rows_than_a_sheet_holds_go_on_in_the_next_and_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(xlsx, "MOST_ROWS", 4)
    monkeypatch.setattr(xlsx, "_ROWS_AT_ONCE", 3)
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
    monkeypatch.setattr(xlsx, "_ZIP64_FROM", 10_000)
    monkeypatch.setattr(xlsx, "_ROWS_AT_ONCE", 10)
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


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_without_rows_has_its_header(name, tmp_path):
    write(name, table_of({"a": pl.Series([], dtype=pl.String), "b": pl.Series([], dtype=pl.Float64)}), tmp_path)

    if name == "xlsx":
        assert read_sheet(openpyxl.load_workbook(tmp_path / "table.xlsx").active) == [["a", "b"]]
    elif name == "csv":
        assert read_csv(tmp_path / "table.csv") == [["a", "b"]]
    elif name == "json":
        assert json.loads((tmp_path / "table.json").read_text()) == {"columns": ["a", "b"], "rows": []}
    else:
        assert pl.read_parquet(tmp_path / "table.parquet").columns == ["a", "b"]


HOSTILE = [
    *('=cmd|"/c calc"!A1', "+1+1", "-2+3", "@SUM(A1)", "=1", "{=1}", "http://example.org/x", "<script>&amp;]]>"),
    *(
        "a\nb",
        "a\r\nb",
        "\r",
        '"',
        "'",
        ",",
        "\t",
        " ",
        " blanks ",
        "\n",
        "_x0041_",
        "_x0041_x0042_",
        "_x004",
        "a\x1b[",
    ),
    *("\x01\x1f\x0b", "\ufffe\uffff", "\x7f\x85\u2028", "None", "True", "#DIV/0!"),
]


@pytest.mark.parametrize("numeric", [frozenset(), frozenset(["a"])], ids=["text", "numeric"])
def test_hostile_text_is_text(tmp_path, numeric):
    for name in FORMATS:
        write(name, table_of({"a": HOSTILE}, numeric=numeric), tmp_path)

    sheet = openpyxl.load_workbook(tmp_path / "table.xlsx").active
    assert [row[0] for row in read_sheet(sheet)] == ["a", *HOSTILE]
    content = sheet_xml(tmp_path / "table.xlsx")
    assert b'<t xml:space="preserve"> blanks </t>' in content  # without it Excel drops the blanks
    assert b"<f>" not in content
    assert b"<hyperlink" not in content
    assert b"<v>" not in content.partition(b"</row>")[2]
    assert [row[0] for row in read_csv(tmp_path / "table.csv")] == ["a", *HOSTILE]
    assert json.loads((tmp_path / "table.json").read_text())["rows"] == [[text] for text in HOSTILE]
    assert pl.read_parquet(tmp_path / "table.parquet")["a"].to_list() == HOSTILE


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
LIKELY = st.text(st.sampled_from("&<>_x041\n\r\t\"', =é𝄞"), max_size=12)
CELLS = st.one_of(TEXT, LIKELY, st.floats().map(repr), st.integers().map(str), st.none())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.lists(st.tuples(CELLS, CELLS, st.sampled_from([None, "red"])), min_size=1, max_size=8))
def test_any_text_survives(tmp_path, cells):
    first, second, colours = (list(column) for column in zip(*cells, strict=True))
    table = table_of({"a": pl.Series(first, dtype=pl.String), "b": pl.Series(second, dtype=pl.String)}, colours)
    for name in ("csv", "xlsx", "json"):
        write(name, table, tmp_path)

    expected = [[cell or "" for cell in row[:2]] for row in cells]
    assert read_csv(tmp_path / "table.csv")[1:] == expected
    rows = read_sheet(openpyxl.load_workbook(tmp_path / "table.xlsx").active)[1:]
    rows += [[None] * 2] * (len(cells) - len(rows))  # openpyxl does not see blank rows at the end
    assert [[cell or "" for cell in row] for row in rows] == expected
    document = json.loads((tmp_path / "table.json").read_text())
    assert [row[:2] for row in document["rows"]] == [list(row[:2]) for row in cells]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_keep_all_their_digits(tmp_path, numbers):
    columns = {"float": numbers, "text": [repr(number) for number in numbers]}
    for name in FORMATS:
        write(name, table_of(columns, numeric=frozenset(["text"])), tmp_path)

    pairs = [[number, number] for number in numbers]
    assert read_sheet(openpyxl.load_workbook(tmp_path / "table.xlsx").active)[1:] == pairs
    assert [list(map(float, row)) for row in read_csv(tmp_path / "table.csv")[1:]] == pairs
    assert json.loads((tmp_path / "table.json").read_text())["rows"] == pairs
    assert [list(row) for row in pl.read_parquet(tmp_path / "table.parquet").rows()] == pairs


def test_text_that_is_too_long_for_excel_is_cut_there_alone_and_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(xlsx, "_ROWS_AT_ONCE", 2)
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


@pytest.mark.parametrize(("place", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")])
def test_letters_are_those_of_a_spreadsheet(place, name):
    assert rows.letters(place) == name


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_replaces_a_file_of_its_name_and_makes_its_folder(name, tmp_path):
    for columns in ({"a": [1]}, {"a": [1, 2]}):
        written = write(name, table_of(columns), tmp_path / "new" / "folder")

    assert os.listdir(tmp_path / "new" / "folder") == [written.files[0].name]


@pytest.mark.parametrize("name", FORMATS)
def test_a_path_that_cannot_be_written_is_one_sentence(name, tmp_path):
    (tmp_path / "file").write_text("")
    plugin = plugins.load("report.formats", name)
    (tmp_path / f"table{plugin.suffix}").mkdir()

    for path in (tmp_path / "file" / "table", tmp_path / f"table{plugin.suffix}", Path("/proc/none/table")):
        with pytest.raises(RunWriteError, match=rf"^cannot write {re.escape(str(path))}: [A-Z][a-z -]+\.$"):
            plugin.write(table_of(), path)
    assert sorted(os.listdir(tmp_path)) == ["file", f"table{plugin.suffix}"]


@pytest.fixture
def small_disk(tmp_path):
    with mounted_disk(tmp_path / "disk", megabytes=1) as disk:
        yield disk


def large_table() -> Table:
    """A table that does not become small when it is compressed."""
    return table_of({"a": [os.urandom(30).hex() for _ in range(60_000)]})


@pytest.mark.parametrize("name", FORMATS)
def test_a_full_disk_is_one_sentence_and_what_was_there_stays(name, small_disk):
    written = write(name, table_of(), small_disk)
    before = written.files[0].read_bytes()

    with pytest.raises(RunWriteError, match=r"cannot write .*/table\.\w+: No space left on device\.$"):
        write(name, large_table(), small_disk)

    assert os.listdir(small_disk) == [written.files[0].name]
    assert written.files[0].read_bytes() == before


@pytest.mark.parametrize("name", FORMATS)
def test_a_read_only_disk_is_one_sentence(name, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)

    with pytest.raises(RunWriteError, match=r"cannot write .*/table\.\w+: Read-only file system\.$"):
        write(name, table_of(), small_disk)


def test_a_file_size_limit_is_one_sentence(tmp_path):
    """The same without a mount: a limit on file size refuses writes as a full disk does."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from tests.report.formats.test_tables import *\n"
        "table = large_table()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))\n"
        "for name in FORMATS:\n"
        "    try: write(name, table, Path(sys.argv[1]))\n"
        "    except RunWriteError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT)

    assert done.stdout.count("cannot write") == done.stdout.count("File too large.\n") == len(FORMATS), done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", FORMATS)
def test_an_interrupted_write_leaves_nothing(name, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(name, table_of(), tmp_path)

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (table_of({"a": [1, 2]}, ["red"]), "2 rows and 1 colours"),
        (table_of({"a": [1]}, ["green"]), "not 'green'"),
        (table_of({"a": [[1]]}), "column 'a' holds List"),
    ],
    ids=["colours-missing", "unknown-colour", "nested"],
)
def test_a_table_against_the_contract_is_our_fault(name, table, problem, tmp_path):
    with pytest.raises(InternalError, match=problem):
        write(name, table, tmp_path)

    assert os.listdir(tmp_path) == []


def test_a_categorical_column_is_text(tmp_path):
    for name in FORMATS:
        write(name, table_of({"a": pl.Series(["x", None, "y"], dtype=pl.Categorical), "b": [1, 2, 3]}), tmp_path)

    sheet = openpyxl.load_workbook(tmp_path / "table.xlsx").active
    assert read_sheet(sheet) == [["a", "b"], ["x", 1], [None, 2], ["y", 3]]
    assert read_csv(tmp_path / "table.csv") == [["a", "b"], ["x", "1"], ["", "2"], ["y", "3"]]
