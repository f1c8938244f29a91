"""The tables of the fourth document: every column that it prints, the words in them, and what is said of an item."""

from __future__ import annotations

import csv
import re

import pytest
import torch

import torchparity
from tests.seeds.samples import SEEDS, needs_seeds

COMMON = ["NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"]
COMMON += ["NPU Requires_grad", "Bench Requires_grad"]
METRICS = ["Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio"]
DIFFERENCES = ["Max diff", "Min diff", "Mean diff", "L2norm diff"]
RELATIVE = ["MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"]
VALUES = ["NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm"]
REAL_DATA = [*COMMON, *METRICS, *VALUES, "Requires_grad Consistent", "Accuracy Reached or Not", "Err_message"]
STATISTICS = [*COMMON, *DIFFERENCES, *RELATIVE, *VALUES, "Requires_grad Consistent", "Result", "Err_message"]
CHECKSUMS = [*COMMON, "NPU MD5", "BENCH MD5", "Requires_grad Consistent", "Result"]


def compared(folder, mine, other, mode=None, **options):
    """Return the rows of a comparison of torch.tanh of two tensors, by name."""
    settings = mode or {"task": "tensor"}
    for name, values in (("npu_dump", mine), ("bench_dump", other)):
        with torchparity.capture(folder / name, **settings):
            torch.tanh(values)
    return rows_of(folder, **options)


def rows_of(folder, **options):
    (file,) = torchparity.compare(folder / "npu_dump", folder / "bench_dump", **options).to_csv(folder / "output")
    with file.open(newline="") as opened:
        return {row["NPU Name"]: row for row in csv.DictReader(opened)}


@pytest.mark.parametrize(
    ("mode", "columns"),
    [
        ({"task": "tensor"}, [*REAL_DATA, "NPU_Stack_Info", "Data_name"]),
        ({"task": "statistics"}, [*STATISTICS, "NPU_Stack_Info"]),
        ({"task": "statistics", "summary_mode": "md5"}, [*CHECKSUMS, "NPU_Stack_Info"]),
    ],
)
def test_each_mode_has_the_columns_of_its_table(tmp_path, mode, columns):
    rows = compared(tmp_path, torch.ones(3), torch.ones(3), mode)

    assert list(rows["Torch.tanh.0.forward.input.0"]) == columns


@needs_seeds
def test_the_document_prints_these_columns():
    (document,) = SEEDS.glob("003_*.txt")
    text = document.read_text(encoding="utf-8")

    for column in {*REAL_DATA, *STATISTICS, *CHECKSUMS} - set(VALUES):
        assert column in text
    assert re.search(r"NPU 和 bench 的统计量 \(max, min, mean, L2 norm\)\|", text)  # VALUES in one cell


@pytest.mark.parametrize(
    ("mode", "column", "other", "word"),
    [
        ({"task": "tensor"}, "Accuracy Reached or Not", [0.1, 0.2], "Yes"),
        ({"task": "tensor"}, "Accuracy Reached or Not", [-9.0, 9.0], "No"),
        ({"task": "tensor"}, "Accuracy Reached or Not", [0.1, 0.2, 0.3], "Unmatched"),
        ({"task": "tensor"}, "Cosine", [0.1, 0.2, 0.3], "shape unmatched"),
        ({"task": "statistics"}, "Result", [0.1, 0.2], ""),
        ({"task": "statistics"}, "Result", [-9.0, 9.0], "Warning"),
        ({"task": "statistics", "summary_mode": "md5"}, "Result", [0.1, 0.2], "Pass"),
        ({"task": "statistics", "summary_mode": "md5"}, "Result", [0.1, 0.3], "Different"),
    ],
)
def test_the_words_of_a_verdict(tmp_path, mode, column, other, word):
    rows = compared(tmp_path, torch.tensor([0.1, 0.2]), torch.tensor(other), mode)

    assert rows["Torch.tanh.0.forward.input.0"][column] == word


def test_a_call_without_a_partner_has_no_result(tmp_path):
    for name, function in (("npu_dump", torch.tanh), ("bench_dump", torch.exp)):
        with torchparity.capture(tmp_path / name):
            torch.ones(2).abs()
            function(torch.ones(2))

    alone = rows_of(tmp_path)["Torch.tanh.0.forward.input.0"]

    assert (alone["Bench Name"], alone["Result"]) == ("N/A", "N/A")
    assert alone["Err_message"].startswith("No bench data matched.")


def test_an_argument_that_is_no_tensor_has_no_verdict(tmp_path):
    for name in ("npu_dump", "bench_dump"):
        with torchparity.capture(tmp_path / name, task="tensor"):
            torch.ones(2).sum(0)

    assert rows_of(tmp_path)["Tensor.sum.0.forward.input.1"]["Accuracy Reached or Not"] == "None"


def test_a_statistic_that_is_far_off_is_to_be_checked(tmp_path):
    rows = compared(tmp_path, torch.full((2,), 0.1), torch.full((2,), 0.9), {"task": "statistics"})

    row = rows["Torch.tanh.0.forward.input.0"]
    assert (row["Result"], row["Err_message"]) == ("Warning", "Need double check api accuracy.")


@pytest.mark.parametrize(
    ("is_fuzzy", "sentence"),
    [(True, "Fuzzy matching data, the comparison accuracy may be affected."), (False, "Bench api/module unmatched.")],
)
def test_another_number_of_calls_pairs_by_the_fuzzy_rule_alone(tmp_path, is_fuzzy, sentence):
    for name, call in (("npu_dump", 1), ("bench_dump", 0)):
        with torchparity.capture(tmp_path / name, task="tensor", list=[f"Torch.tanh.{call}", "Tensor.abs"]):
            torch.tanh(torch.tanh(torch.ones(2)).abs())

    row = rows_of(tmp_path, align="fuzzy" if is_fuzzy else "name")["Torch.tanh.1.forward.input.0"]

    assert row["Bench Name"] == ("Torch.tanh.0.forward.input.0" if is_fuzzy else "N/A")
    assert sentence in row["Err_message"]


def test_another_requires_grad_is_false_in_its_column_and_said(tmp_path):
    rows = compared(tmp_path, torch.ones(2, requires_grad=True), torch.ones(2), {"task": "statistics"})

    row = rows["Torch.tanh.0.forward.input.0"]
    assert (row["NPU Requires_grad"], row["Bench Requires_grad"]) == ("True", "False")
    assert row["Requires_grad Consistent"] == "False"
    assert "Requires_grad inconsistent." in row["Err_message"]


@pytest.mark.parametrize(
    ("mine", "other", "sentence"),
    [
        (torch.ones(2), torch.ones(3), "Shape of NPU and bench Tensor do not match. Skipped."),
        (torch.empty(0), torch.empty(0), "This is empty data, can not compare."),
        (torch.ones(2), torch.ones(2).double(), "Dtype of NPU and bench Tensor do not match."),
        (
            torch.tensor([1.0, torch.nan]),
            torch.tensor([1.0, 2.0]),
            "The Position of inf or nan in NPU and bench Tensor do not match.",
        ),
        (
            torch.tensor(1.0),
            torch.tensor(1.0),
            "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', 'One Thousandth Err Ratio' "
            "and 'Five Thousandths Err Ratio'.",
        ),
    ],
)
def test_what_real_data_do_not_allow_is_said(tmp_path, mine, other, sentence):
    rows = compared(tmp_path, mine, other)

    assert sentence in rows["Torch.tanh.0.forward.input.0"]["Err_message"]


def test_a_file_that_is_gone_is_named(tmp_path):
    compared(tmp_path, torch.ones(2), torch.ones(2), {"task": "tensor", "tensor_format": "pt"})
    (gone,) = (tmp_path / "npu_dump").rglob("Torch.tanh.0.forward.input.0.pt")
    gone.unlink()

    row = rows_of(tmp_path)["Torch.tanh.0.forward.input.0"]

    assert row["Cosine"] == "unsupported"
    said = row["Err_message"]
    assert re.match(r"Dump file: \[.*Torch\.tanh\.0\.forward\.input\.0\.pt.*\] not found or read failed\.", said)


@pytest.mark.parametrize(
    ("lacking", "sentence"),
    [("npu_dump", "NPU does not have data file."), ("bench_dump", "Bench does not have data file.")],
)
def test_who_has_no_values_is_said(tmp_path, lacking, sentence):
    for name in ("npu_dump", "bench_dump"):
        chosen = {"tensor_list": ["abs"]} if name == lacking else {"tensor_list": ["abs", "tanh"]}
        with torchparity.capture(tmp_path / name, task="statistics", **chosen):
            torch.tanh(torch.ones(2).abs())

    assert sentence in rows_of(tmp_path)["Torch.tanh.0.forward.input.0"]["Err_message"]
