"""A device that is not the CPU: another order of sums passes, a wrong kernel fails."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.simulation import NEEDS_TORCH
from tests.support.processes import ROOT

pytestmark = NEEDS_TORCH


def test_another_order_of_sums_passes_and_a_wrong_epsilon_fails_alone():
    command = [sys.executable, "-m", "tests.check.simulated_device"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)

    assert set(found["right"].values()) == {"pass"}
    failed = {name for name, status in found["wrong"].items() if status == "error"}
    assert failed == {name for name in found["wrong"] if "layer_norm" in name}
