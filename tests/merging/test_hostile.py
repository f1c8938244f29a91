"""What cannot be merged is refused in one sentence, with exit code 2 and nothing written."""

from __future__ import annotations

import zipfile

import pytest
import xlsxwriter

from tests.support.results import STATISTICS, TIME, VALUES, merged_cells, write_result
from torchparity.cli import main

SEND = "Distributed.send.0.forward.input.0"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def result(tmp_path, rank=0, suffix="csv", time=TIME, **options):
    return write_result(tmp_path / "in" / f"compare_result_rank{rank}_{time}.{suffix}", {SEND: 1}, **options)


def refused(tmp_path, capsys, config="api: [Distributed]\n"):
    """Merge what cannot be merged; return the sentence."""
    (tmp_path / "cfg.yaml").write_text(config)
    asked = ["-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "-config", str(tmp_path / "cfg.yaml")]
    assert main(["merge_result", *asked]) == 2
    assert not (tmp_path / "out").exists()
    told = capsys.readouterr().err
    assert told.startswith("torchparity: ") and told.count("\n") == 1 and len(told) < 800
    return told


def test_a_folder_without_results(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "compare_summary_20260131120000.csv").write_text("Step,Rank\n")
    (tmp_path / "in" / f"compare_result_rank0_{TIME}.json").write_text("{}")  # of -da

    assert "holds no results of ranks" in refused(tmp_path, capsys)


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert "cannot be listed (no such file or directory)" in refused(tmp_path, capsys)


@pytest.mark.parametrize("suffix", ["xlsx", "parquet", "json"])
@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.99])
def test_a_file_that_is_cut_short(tmp_path, capsys, suffix, kept):
    path = result(tmp_path, suffix=suffix)
    if suffix == "json":
        path = path.rename(path.with_name(path.name.replace("result", "table")))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else kept])

    assert path.name in refused(tmp_path, capsys)


def test_an_empty_csv(tmp_path, capsys):
    result(tmp_path).write_bytes(b"")

    assert "no result of a comparison" in refused(tmp_path, capsys)


@pytest.mark.parametrize("suffix", ["xlsx", "csv", "parquet"])
@pytest.mark.parametrize("content", [b"\x00" * 1000, b"PK\x03\x04", b"<html></html>", b"\xff\xfe,\xff\n1,2\n"])
def test_a_file_of_something_else(tmp_path, capsys, suffix, content):
    path = result(tmp_path, suffix=suffix)
    path.write_bytes(content)

    assert path.name in refused(tmp_path, capsys)


@pytest.mark.parametrize("header", [[], ["a", "b"], ["NPU Name", "Max diff"], ["NPU Name", "NPU max", "Bench max"]])
def test_a_workbook_that_is_no_result(tmp_path, capsys, header):
    path = result(tmp_path, suffix="xlsx")
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, header)
        sheet.write_row(1_048_575, 16_383, ["far"])

    assert f"{path}: it is no result of a comparison" in refused(tmp_path, capsys)


def test_a_workbook_with_shared_texts_as_excel_saves_it(tmp_path):
    path = result(tmp_path, suffix="xlsx")
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("Results")
        sheet.write_row(0, 0, ["NPU Name", *STATISTICS, "NPU max", "Bench max"])
        sheet.write_row(1, 0, [SEND, *[1.5] * 8, True, 2, 3])
        sheet.write_rich_string(2, 0, "Distributed.", book.add_format({"bold": True}), "recv.0.forward.input.0")
        sheet.write_row(2, 1, ["N/A"] * 8 + [False, "_x0041_", 4])
    (tmp_path / "cfg.yaml").write_text("api: [Distributed]\ncompare_index: [Max diff, Requires_grad Consistent]\n")

    asked = ["-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "-config", str(tmp_path / "cfg.yaml")]
    assert main(["merge", *asked]) == 0

    recv = "Distributed.recv.0.forward.input.0"
    sheets = merged_cells(tmp_path / "out")
    assert sheets["Max diff"][1:] == [[SEND, 1.5], [recv, "NPU:_x005F_x0041_  Bench:4"]]  # escaped as Excel does
    assert sheets["Requires_grad Consistent"][1:] == [[SEND, True], [recv, False]]


@pytest.mark.parametrize(
    "sheet",
    [
        pytest.param(
            b"<worksheet><sheetData><row><c r='A1' t='s'><v>7</v></c></row></sheetData></worksheet>", id="text"
        ),
        pytest.param(b"<row><c><v>1</v></c></row>", id="row-alone"),
        pytest.param(b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]><worksheet>&a;</worksheet>", id="entities"),
        pytest.param(b"<worksheet><sheetData><row><c r='ZZZZ1'><v>1</v></c></row></sheetData></worksheet>", id="far"),
        pytest.param(b"<worksheet><sheetData><row>", id="unfinished"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_sheets_that_no_program_writes(tmp_path, capsys, sheet):
    path = result(tmp_path, suffix="xlsx")
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/worksheets/sheet1.xml", sheet)

    assert path.name in refused(tmp_path, capsys)


def test_a_workbook_that_unpacks_to_more_than_there_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torchparity.merging.workbook._MOST_BYTES", 1000)
    result(tmp_path, suffix="xlsx")

    assert "unpacks to" in refused(tmp_path, capsys)


def test_two_results_of_one_rank(tmp_path, capsys):
    result(tmp_path, rank=1)
    result(tmp_path, rank=1, time="20260131130000")
    result(tmp_path)

    told = refused(tmp_path, capsys)
    assert "two results of rank 1" in told and "compare_result_rank1_20260131130000.csv" in told


def test_two_modes(tmp_path, capsys):
    result(tmp_path)
    result(tmp_path, rank=1, metrics=VALUES)

    told = refused(tmp_path, capsys)
    assert f"compare_result_rank0_{TIME}.csv compares statistics" in told and "compares values" in told


def test_checksums(tmp_path, capsys):
    result(tmp_path, metrics=["NPU MD5", "BENCH MD5"])

    assert "compares checksums (md5), which have no metrics to merge" in refused(tmp_path, capsys)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("compare_index: [Max diff]\n", "names no API: the key 'api' must have a list of names"),
        ("api:\n", "names no API"),
        ("api: []\n", "names no API"),
        ("", "must have the key 'api'"),
        ("- Distributed\n", "must have the key 'api'"),
        ("apis: [Distributed]\n", "unknown key 'apis'. Did you mean 'api'?"),
        ("api: {a: b}\n", "'api' must be a list of names"),
        ("api: [[Distributed]]\n", "'api' must be a list of names"),
        ("api: &a [*a]\n", "not valid YAML (found unconstructable recursive node)"),
        ("api: [Distributed\n", "not valid YAML"),
        ("api: [Distributed]\n\x00", "not valid YAML"),
        ("api: " + "[" * 5000, "not valid YAML"),
        ("api: " + "x" * (1 << 20), "more than 1,048,576 bytes"),
        ("!!python/object/apply:os.system ['true']\n", "must have the key 'api'"),
        (BOMB + "api: [*i]\n", "unknown key 'a'"),
        (BOMB.replace("a: &a", "api: &a", 1), "unknown key 'b'"),
        ("api: [Distributed]\ncompare_index: [Max dif]\n", "do not have. Did you mean 'Max diff'?"),
        ("api: [Distributed]\ncompare_index: [Cosine]\n", "That is a metric of another kind of results."),
        ("api: [Distributed]\ncompare_index: [3]\n", "asks for '3'"),
    ],
)
def test_configurations_that_say_something_else(tmp_path, capsys, config, problem):
    result(tmp_path)

    assert problem in refused(tmp_path, capsys, config)


def test_a_bomb_in_the_list_itself_is_not_unfolded(tmp_path, capsys):
    result(tmp_path)
    deep = "api: [" + "".join(f"&x{n} [{', '.join([f'*x{n - 1}'] * 9) if n else 'y'}], " for n in range(30)) + "z]\n"

    assert "'api' must be a list of names" in refused(tmp_path, capsys, deep)


def test_a_configuration_that_is_not_there(tmp_path, capsys):
    result(tmp_path)

    assert main(["merge", "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "-config", "no.yaml"]) == 2
    assert "the configuration no.yaml cannot be read (No such file or directory)" in capsys.readouterr().err
