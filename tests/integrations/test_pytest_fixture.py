"""The fixture `parity`, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes import ROOT, run_python

TESTS = """
import copy

import pytest
import torch
from torch import nn


@pytest.fixture
def models():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    return copy.deepcopy(model), model


def test_that_agrees(parity, models):
    result = parity(*models, torch.randn(3, 4), backward=True, task="tensor")
    assert result.verdict.agreement.is_identical


def test_that_parts(parity, models):
    models[0][2].eps = 0.1
    parity(*models, torch.randn(3, 4))
    raise AssertionError("the fixture failed the test before this line")


def test_that_allows_it(parity, models):
    models[0][2].eps = 1.001e-5
    parity(*models, torch.randn(3, 4), level="L0", tolerance=0.1)


def test_that_asks_wrongly(parity, models):
    parity(*models, torch.randn(3, 4), level="L7")


def test_whose_model_fails(parity, models):
    parity(*models, torch.randn(3, 5))
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "400", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    plugin = [] if is_installed(environment) else ["-p", "torchparity.integrations.pytest"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options, str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )


def is_installed(environment: dict[str, str]) -> bool:
    """Tell whether the installed distribution announces the plugin; one from before it had a plugin does not."""
    code = "from importlib.metadata import entry_points; print([e.value for e in entry_points(group='pytest11')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return "torchparity.integrations.pytest" in done.stdout


def test_a_test_fails_with_the_headline_and_passes_where_models_agree(tmp_path):
    (tmp_path / "test_models.py").write_text(TESTS)

    done = run_pytest(tmp_path, "-rA")

    assert "2 passed" in done.stdout and "3 failed" in done.stdout, done.stdout
    assert "PASSED test_models.py::test_that_agrees" in done.stdout
    assert "PASSED test_models.py::test_that_allows_it" in done.stdout
    headline = "FAILED test_models.py::test_that_parts - Failed: First difference: Functional.layer_norm.0.forward"
    assert headline in done.stdout
    assert "input.eps=0.1, the baseline with 1e-05" in done.stdout
    assert "the fixture failed the test before this line" not in done.stdout
    assert "ConfigError: lockstep was given level='L7'" in done.stdout
    assert "RuntimeError: " in done.stdout  # the model's own failure


def test_the_headline_comes_without_a_traceback(tmp_path):
    (tmp_path / "test_models.py").write_text(TESTS)

    done = run_pytest(tmp_path, "-k", "test_that_parts")

    assert "Functional.layer_norm.0.forward" in done.stdout
    assert "lockstep(" not in done.stdout and "Traceback" not in done.stdout
    assert ".py:" not in done.stdout.replace("test_models.py::", "")  # no place in a file


def test_pytest_is_told_of_the_plugin():
    project = (ROOT / "pyproject.toml").read_text()

    assert '[project.entry-points.pytest11]\ntorchparity = "torchparity.integrations.pytest"\n' in project


def test_loading_the_plugin_loads_neither_torch_nor_numpy():
    code = (
        "import sys, torchparity.integrations.pytest\n"
        "print([name for name in ('torch', 'numpy', 'msgspec', 'torchparity.in_lockstep') if name in sys.modules])"
    )

    done = run_python(code)

    assert done.stdout.strip() == "[]"
