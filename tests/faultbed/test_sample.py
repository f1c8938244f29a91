"""A sample of the fault bed: forty cases of a fixed seed, recorded and compared in both tasks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faultbed.runner import read
from tests.support.processes import ROOT

CASES = 40
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The lines of the sample, one for each comparison; the runs are made in processes of their own."""
    folder = tmp_path_factory.mktemp("faultbed")
    command = [sys.executable, "-m", "tests.faultbed", str(folder), "--sample", str(CASES)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    return read(folder / "results.jsonl")


def faults_in(lines, task):
    return [line for line in lines if "kind" in line and line["task"] == task and line["baseline"] == "plain"]


def test_every_case_of_the_sample_is_run(lines):
    assert len({line["id"].rsplit("/", 1)[0].removesuffix("/plain").removesuffix("/noisy") for line in lines}) == CASES


def test_truths_are_those_of_the_bits(lines):
    """The first record that differs at all is one of those that the fault declares."""
    assert [line["id"] for line in faults_in(lines, "tensor") if not line["confirmed"] and not line["void"]] == []


@pytest.mark.parametrize(("task", "share"), [("tensor", 0.95), ("statistics", 0.90)])
def test_large_and_moderate_faults_are_named(lines, task, share):
    faults = [line for line in faults_in(lines, task) if line["strength"] != "near" and not line["void"]]

    assert len(faults) >= 15
    assert sum(line["named"] for line in faults) >= share * len(faults), [
        (line["id"], line["headline"]) for line in faults if not line["named"]
    ]


def test_clean_pairs_are_not_blamed(lines):
    pairs = [line for line in lines if "clean" in line]

    assert len(pairs) >= 16
    assert [(line["id"], line["headline"]) for line in pairs if line["blamed"]] == []
