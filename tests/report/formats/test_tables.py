"""Every format holds every cell of a table, and writes it whole or not at all."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.disks import mounted_disk
from tests.support.processes import ROOT
from tests.support.tables import COLUMNS, FORMATS, read_csv, read_sheet, rows_of, sheet_xml, table_of, write
from torchparity import plugins
from torchparity.errors import InternalError, RunWriteError
from torchparity.records import Table


def guarded(text: str) -> str:
    """Return text as a csv holds it: with an apostrophe where a spreadsheet would run it."""
    is_number = re.fullmatch(r"[+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-](?:inf|infinity|nan)", text, re.ASCII)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) and not is_number else text


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


def test_colours_are_a_column_for_programs_if_there_are_any(tmp_path):
    for name in ("json", "parquet", "csv"):
        write(name, table_of({"a": [1, 2, 3]}, ["red", None, "yellow"]), tmp_path)

    document = json.loads((tmp_path / "table.json").read_text())
    assert document == {"columns": ["a", "colour"], "rows": [[1, "red"], [2, None], [3, "yellow"]]}
    assert pl.read_parquet(tmp_path / "table.parquet")["colour"].to_list() == ["red", None, "yellow"]
    assert read_csv(tmp_path / "table.csv")[0] == ["a"]

    write("json", table_of({"a": [1, 2, 3]}, [None] * 3), tmp_path)
    assert json.loads((tmp_path / "table.json").read_text())["columns"] == ["a"]


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
    assert [row[0] for row in read_csv(tmp_path / "table.csv")] == ["a", *map(guarded, HOSTILE)]
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
    assert read_csv(tmp_path / "table.csv")[1:] == [[guarded(cell) for cell in row] for row in expected]
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
        with pytest.raises(RunWriteError, match=rf"^cannot write {re.escape(str(path))}: [a-z -]+\.$"):
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

    with pytest.raises(RunWriteError, match=r"cannot write .*/table\.\w+: no space left on device\.$"):
        write(name, large_table(), small_disk)

    assert os.listdir(small_disk) == [written.files[0].name]
    assert written.files[0].read_bytes() == before


@pytest.mark.parametrize("name", FORMATS)
def test_a_read_only_disk_is_one_sentence(name, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)

    with pytest.raises(RunWriteError, match=r"cannot write .*/table\.\w+: read-only file system\.$"):
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

    assert done.stdout.count("cannot write") == done.stdout.count("file too large.\n") == len(FORMATS), done.stderr
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
