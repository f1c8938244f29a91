"""Text that a spreadsheet would run: a csv guards it, a workbook holds it as text."""

from __future__ import annotations

import csv
import json
import zipfile

import polars as pl
import pytest

from torchparity import plugins
from torchparity.cli import main
from torchparity.records import Table

FORMULA = "=cmd|'/C calc'!A0.0.forward"
DANGEROUS = [FORMULA, "+1+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "\n=1", "-x", "+", "-1e999x", "-1,5", "=1"]
NUMBERS = ["-0.5", "-1", "+0.5", "-1e-05", "-inf", "1.5", "-0.0"]


def written(frame, folder):
    path = folder / "table.csv"
    plugins.load("report.formats", "csv").write(Table(frame=frame, title="table"), path)
    with path.open(newline="") as file:
        return [row[0] for row in csv.reader(file)][1:]


@pytest.mark.parametrize("text", DANGEROUS)
def test_text_that_begins_like_a_formula_is_guarded_in_csv(text, tmp_path):
    assert written(pl.DataFrame({"a": [text, "plain"]}), tmp_path) == [f"'{text}", "plain"]


def test_numbers_stay_numbers_in_csv(tmp_path):
    assert written(pl.DataFrame({"a": NUMBERS}), tmp_path) == NUMBERS
    assert written(pl.DataFrame({"a": [-1.5, 2.0]}), tmp_path) == ["-1.5", "2.0"]


def test_a_workbook_holds_text_as_text(tmp_path):
    path = tmp_path / "table.xlsx"
    plugins.load("report.formats", "xlsx").write(Table(frame=pl.DataFrame({"a": DANGEROUS}), title="table"), path)

    with zipfile.ZipFile(path) as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert FORMULA.partition("|")[0] in sheet


def test_a_record_called_like_a_formula_is_text_in_the_csv_of_a_comparison(tmp_path, capsys):
    for name in ("candidate", "baseline"):
        folder = tmp_path / name / "step0" / "rank0"
        folder.mkdir(parents=True)
        leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "requires_grad": False}
        leaf |= {"Max": -1.0, "Min": -2.0, "Mean": -1.5, "Norm": 2.2}
        data = {FORMULA: {"input_args": [], "input_kwargs": {}, "output": [leaf]}}
        (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "L1", "data": data}))

    code = main(["compare", str(tmp_path / "candidate"), str(tmp_path / "baseline"), "-o", str(tmp_path / "out")])

    (table,) = (tmp_path / "out").glob("*.csv")
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert code == 0
    assert row["NPU Name"] == row["Bench Name"] == f"'{FORMULA}.output.0"
    assert (row["NPU max"], row["NPU min"]) == ("-1", "-2")
