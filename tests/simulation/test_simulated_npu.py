"""The simulated NPU, in processes of its own: there it stays for as long as the process lives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.simulation import NEEDS_TORCH
from tests.support.processes import ROOT, run_python
from tests.support.zoo import ZOO

CHECKS = sorted(path.stem for path in Path(__file__).parent.glob("check_*.py"))
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]

pytestmark = NEEDS_TORCH


def test_there_are_checks():
    assert CHECKS == ["check_behaviours", "check_device", "check_recording"]


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_pass_where_the_npu_is_simulated(name):
    done = subprocess.run([*PYTEST, f"tests/simulation/{name}.py"], capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


def test_the_zoo_trains_to_the_bits_of_the_cpu():
    command = [sys.executable, "-m", "tests.simulation.zoo_training"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: [] for name in ZOO}


def test_importing_it_activates_nothing():
    done = run_python(
        "import torch, torchparity.simulation; print(hasattr(torch, 'npu'), hasattr(torch.Tensor, 'npu'))"
    )

    assert done.stdout.split() == ["False", "False"], done.stderr


def test_faults_that_were_never_met_are_told_at_the_end():
    met, unmet = "simulation.NanAt('neg')", "simulation.NanAt('exp', 7)"
    plant = f"torchparity.simulate_npu(simulation.NpuBehaviour(faults=({met}, {unmet})))"
    done = run_python(
        f"import torch, torchparity; from torchparity import simulation; {plant}; torch.ones(2).npu().neg()"
    )

    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "torchparity: the simulated NPU never met the fault NanAt(operator='exp', call=7, index=0): "
        "exp was called 0 times, and calls are counted from 0"
    ]


def test_it_gives_way_to_a_real_npu(tmp_path):
    (tmp_path / "torch_npu.py").write_text("")
    done = run_python(
        "import sys; sys.path.insert(0, sys.argv[1]); import torchparity; torchparity.simulate_npu()", tmp_path
    )

    assert done.stderr.splitlines()[-1] == (
        "torchparity.errors.SimulationError: simulate_npu was called where torch_npu is installed; "
        "use the real NPU, or uninstall it."
    )


def test_it_says_when_another_device_has_the_place():
    code = "import torch, torchparity; torch.utils.rename_privateuse1_backend('sim'); torchparity.simulate_npu()"
    done = run_python(code)

    assert done.stderr.splitlines()[-1].endswith("needs torch's place for another device, which 'sim' has taken.")


def test_it_says_when_it_comes_too_late_for_backward():
    backward = "torch.ones(1, requires_grad=True).exp().backward()"
    done = run_python(f"import torch, torchparity; {backward}; torchparity.simulate_npu()")

    assert "after the first backward of this process" in done.stderr.splitlines()[-1]


def test_it_says_when_torch_is_too_old():
    name = "_setup_privateuseone_for_python_backend"
    forget = f"from torch.utils import backend_registration as registration; del registration.{name}"
    done = run_python(f"{forget}; import torchparity; torchparity.simulate_npu()")

    assert f"needs torch 2.13 or newer; this is torch {torch.__version__}." in done.stderr.splitlines()[-1]
