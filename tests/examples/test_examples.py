"""Every script in examples/ runs and says what it promises; the demo has tests of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from tests.support.processes import ROOT
from torchparity import open_run

EXAMPLES = ROOT / "examples"
SAYS = {
    "training_loop": "steps        0, 50",
    "msprobe_config": "task, level  statistics with checksums, mix",
    "hugging_face": "The runs agree within rounding",
    "overflow": "The Torch.softmax.0 overflow is an abnormal overflow.",
    "two_devices": "The runs agree" if torch.cuda.is_available() else "different dtypes, bfloat16 against float32",
}


def run(name, folder, *options):
    script = [sys.executable, *options, str(EXAMPLES / f"{name}.py")]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tested_here():
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*SAYS, "demo"}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_writes_below_its_own_folder(name, tmp_path):
    if name == "hugging_face" and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")

    said = run(name, tmp_path)

    assert SAYS[name] in said
    assert [entry.name for entry in tmp_path.iterdir()] == ["example_runs"]
    assert [entry.name for entry in (tmp_path / "example_runs").iterdir()] == [name]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is not None, reason="transformers is installed")
def test_without_transformers_the_hugging_face_example_says_what_it_needs(tmp_path):
    assert run("hugging_face", tmp_path).startswith("This example needs transformers, which is not installed")


def test_an_example_may_be_run_twice(tmp_path):
    for _ in range(2):
        run("msprobe_config", tmp_path)

    run_of_config = open_run(tmp_path / "example_runs" / "msprobe_config")
    assert run_of_config.steps == [0, 1]
    assert any(leaf.checksum for record in run_of_config.part().records.values() for leaf in tensors_of(record))


def tensors_of(record):
    return [item.leaf for item in record.items() if getattr(item.leaf, "shape", None)]
