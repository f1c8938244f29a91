"""Gradients of APIs that must be exact: where the trusted device is not exact either, ratios of errors decide."""

from __future__ import annotations

import csv

import pytest
import torch

from torchparity import cli
from torchparity.check.judging import DETAILS_HEADER, Outcome, judge
from torchparity.check.two_checks import compare_checks

EMBEDDING, ADD = "Functional.embedding.0.backward.output.1", "Tensor.add.0.backward.output.1"


@pytest.fixture(scope="module")
def summed():
    """Summands, and their sum in float64."""
    rows = torch.randn(64, 2000, generator=torch.Generator().manual_seed(0))
    return rows, rows.double().sum(1)


def details(folder, rows, truth, name, factor=1.0):
    folder.mkdir()
    api = name.partition(".0.")[0]
    found = judge(Outcome(api, name, rows.sum(1) * factor, truth))
    with (folder / "accuracy_checking_details.csv").open("w", newline="") as file:
        csv.writer(file).writerows([DETAILS_HEADER, found.row()])
    return folder / "accuracy_checking_details.csv"


@pytest.mark.parametrize("name", [EMBEDDING, ADD])
@pytest.mark.parametrize(("factor", "status"), [(1.0, "pass"), (1.001, "error")])
def test_a_sum_as_good_as_the_trusted_device_s_passes(tmp_path, summed, name, factor, status):
    rows, truth = summed
    trusted = details(tmp_path / "gpu", rows, truth, name)
    tested = details(tmp_path / "npu", rows.flip(1), truth, name, factor)

    (found,) = compare_checks(tested, trusted).results
    assert (str(found.status), str(found.standard)) == (status, "benchmark")
    assert found.message.endswith("either, so the benchmark decides.")


def test_a_trusted_device_that_is_exact_asks_for_the_same(tmp_path, summed):
    rows, truth = summed
    trusted = details(tmp_path / "gpu", truth.float()[:, None], truth, EMBEDDING)
    tested = details(tmp_path / "npu", rows, truth, EMBEDDING)

    (found,) = compare_checks(tested, trusted).results
    assert (str(found.status), str(found.standard)) == ("error", "binary consistency")


def test_a_check_is_named_by_its_folder(tmp_path, summed, capsys):
    details(tmp_path / "gpu", *summed, EMBEDDING)
    words = ["-npu", str(tmp_path / "gpu"), "-gpu", str(tmp_path / "gpu"), "-o", str(tmp_path / "judged")]

    assert cli.main(["api_precision_compare", *words, "--fail-on", "error"]) == 0
    assert "1 call, 1 result: 1 pass" in capsys.readouterr().out
