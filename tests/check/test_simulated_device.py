"""A device that is not the CPU: another order of sums passes, a wrong kernel fails."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.simulation import NEEDS_TORCH
from tests.support.processes import ROOT

pytestmark = NEEDS_TORCH


@pytest.fixture(scope="module")
def found():
    command = [sys.executable, "-m", "tests.check.simulated_device"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_another_order_of_sums_passes_and_a_wrong_epsilon_fails_alone(found):
    assert set(found["right"].values()) == {"pass"}
    failed = {name for name, status in found["wrong"].items() if status == "error"}
    assert failed == {name for name in found["wrong"] if "layer_norm" in name}


def test_tf32_is_a_warning_by_its_name_in_products_and_attention(found):
    assert {tuple(each) for each in found["tf32"].values()} == {("pass", False), ("warning", True)}
    named = {name.rpartition(".")[0] for name, (_, is_named) in found["tf32"].items() if is_named}
    assert {"Functional.linear", "Functional.scaled_dot_product_attention"} <= named
