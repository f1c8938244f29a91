"""A wrong kernel for one dtype is failed, and its neighbours pass."""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest

from tests.check.planted_kernels import PLANTED
from tests.support.processes import ROOT


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    command = [sys.executable, "-W", "ignore", "-m", "tests.check.planted_kernels", "run", str(folder)]
    command[-2] = str(folder / "run")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    with (folder / "accuracy_checking_result.csv").open() as file:
        return done, {row["API name"]: row for row in csv.DictReader(file)}


def test_every_planted_kernel_is_failed_and_nothing_else(checked):
    _, rows = checked

    failed = {name for name, row in rows.items() if "error" in row.values()}
    assert failed == {f"{api}.0" for api in PLANTED}
    assert {row["Forward Test Success"] for name, row in rows.items() if name not in failed} == {"pass"}


def test_a_wrong_gradient_alone_is_failed_in_backward_alone(checked):
    _, rows = checked

    assert (rows["Torch.sigmoid.0"]["Forward Test Success"], rows["Torch.sigmoid.0"]["Backward Test Success"]) == (
        "pass",
        "error",
    )


def test_the_command_exits_with_1_when_asked_to(checked):
    done, _ = checked

    assert done.returncode == 1
    assert "5 error" in done.stdout
