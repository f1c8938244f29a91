"""The environment of a recording: what each step says, and that reading it changes nothing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from tests.support.runs import records_of
from torchparity import open_run
from torchparity.recording import capture
from torchparity.recording.environment import read_environment


def environment_of(path, step=0):
    return open_run(path).part(step=step).info.environment


def record_one_call(path):
    with capture(path):
        torch.ones(2).exp()
    return environment_of(path)


@pytest.fixture
def settings_of_torch():
    """Put back what the tests of this file set."""
    precision, deterministic = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    dtype, flash, threads = torch.get_default_dtype(), torch.backends.cuda.flash_sdp_enabled(), torch.get_num_threads()
    fill, mkldnn = torch.utils.deterministic.fill_uninitialized_memory, torch._C._get_mkldnn_enabled()
    yield
    torch.set_float32_matmul_precision(precision)
    torch.use_deterministic_algorithms(deterministic)
    torch.set_default_dtype(dtype)
    torch.backends.cuda.enable_flash_sdp(flash)
    torch.set_num_threads(threads)
    torch.utils.deterministic.fill_uninitialized_memory = fill
    torch._C._set_mkldnn_enabled(mkldnn)


def test_a_run_says_what_it_ran_on(tmp_path):
    environment = record_one_call(tmp_path)

    assert environment["torch"] == torch.__version__
    assert environment["python"] == sys.version.split()[0]
    assert environment["cpu.capability"] == torch.backends.cpu.get_cpu_capability()
    assert environment["threads"] == str(torch.get_num_threads())
    assert environment["numpy"] == np.__version__
    assert environment["seed"] == str(torch.initial_seed())


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        pytest.param(lambda: torch.use_deterministic_algorithms(True), "deterministic", "on", id="deterministic"),
        pytest.param(
            lambda: torch.use_deterministic_algorithms(True, warn_only=True), "deterministic", "warn only", id="warns"
        ),
        pytest.param(lambda: torch.set_float32_matmul_precision("high"), "matmul_precision", "high", id="high"),
        pytest.param(lambda: torch.set_float32_matmul_precision("medium"), "mkldnn.matmul", "bf16", id="medium"),
        pytest.param(lambda: torch.set_default_dtype(torch.float64), "default.dtype", "float64", id="default-dtype"),
        pytest.param(lambda: torch.backends.cuda.enable_flash_sdp(False), "attention.flash", "off", id="attention"),
        pytest.param(lambda: torch.set_num_threads(5), "threads", "5", id="threads"),
        pytest.param(lambda: torch.manual_seed(77), "seed", "77", id="seed"),
        pytest.param(lambda: torch._C._set_mkldnn_enabled(False), "mkldnn", "off", id="mkldnn"),
        pytest.param(
            lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
            "deterministic.fill",
            "off",
            id="fill",
        ),
    ],
)
@pytest.mark.usefixtures("settings_of_torch")
def test_a_setting_is_read(change, key, value):
    before = read_environment()[key]

    change()

    assert before != value
    assert read_environment()[key] == value


@pytest.mark.usefixtures("settings_of_torch")
def test_each_step_has_the_environment_that_it_ended_with(tmp_path):
    with capture(tmp_path) as recording:
        torch.ones(2).exp()
        recording.step()
        torch.set_float32_matmul_precision("high")
        torch.ones(2).exp()
        recording.step()

    assert [environment_of(tmp_path, step)["matmul_precision"] for step in (0, 1)] == ["highest", "high"]


def test_autocast_is_seen_although_it_ends_before_the_step_does(tmp_path):
    with capture(tmp_path) as recording:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.ones(2, 2) @ torch.ones(2, 2)
        recording.step()
        torch.ones(2, 2) @ torch.ones(2, 2)
        recording.step()

    assert [environment_of(tmp_path, step)["autocast"] for step in (0, 1)] == ["cpu bfloat16", "off"]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_default_device_is_read(device):
    with torch.device(device):
        assert read_environment()["default.device"] == device


def test_variables_are_read_unless_they_hold_a_path(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setenv("NCCL_ALGO", "/home/somebody/algorithm")

    environment = read_environment()

    assert environment["env.CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert "env.NCCL_ALGO" not in environment


def test_reading_changes_nothing_and_warns_of_nothing():
    def state():
        drawn = (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist())
        return drawn, torch.cuda.is_initialized(), torch.is_grad_enabled(), set(sys.modules)

    read_environment()
    before = state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = read_environment(), read_environment()

    assert state() == before
    assert first == second


def test_reading_survives_both_ways_to_set_the_precision_of_float32():
    """From torch 2.9 on, the flags of old raise once the new ones were used."""
    code = """
import json, warnings, torch
from torchparity.recording.environment import read_environment
warnings.simplefilter("error")
if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    print(json.dumps(read_environment()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if not done.stdout:
        pytest.skip("this torch has only the flags of old")

    environment = json.loads(done.stdout)
    assert (environment["mkldnn.matmul"], environment["matmul_precision"]) == ("bf16", "medium")


def test_what_cannot_be_read_is_left_out(monkeypatch):
    monkeypatch.delattr(torch, "is_inference_mode_enabled")

    environment = read_environment()

    assert "grad_mode" not in environment
    assert environment["torch"] == torch.__version__


def test_it_is_small_and_tells_nothing_about_the_user(tmp_path):
    environment = record_one_call(tmp_path)

    text = json.dumps(environment)
    assert len(text) < 2048
    assert str(tmp_path) not in text and "/" not in text
    assert list(records_of(tmp_path)) == ["Torch.ones.0.forward", "Tensor.exp.0.forward"]
