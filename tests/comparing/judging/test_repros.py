"""Scripts that once got a false answer, in `../shared/repros`, run as a user runs them: each line must be true."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

REPROS = ROOT.parent / "shared" / "repros"
EPSILONS = ("1.2e-05", "1.4e-05", "1.6e-05", "1.8e-05")
FACTORS = (1.0003, 1.001, 1.003)
# Of each script and each line that it prints: parts of the line that must be there.
TRUE = {
    "r1_empty_like": [("statistics", "The runs agree"), ("tensor", "The runs are identical")],
    "r2_creep": [("Functional.layer_norm.0.forward in Module.norm", f"eps={eps}", "with 1e-05") for eps in EPSILONS],
    "r3_statistics_blind": [("Functional.linear.0.forward", "the data differ already", "input.0", "outside")],
    "r4_none_output": [("The runs are identical",)],
    "r5_cast_on_one_side": [
        ("fp64", "different dtypes, float64 against float32", "all within"),
        ("bf16", "different dtypes, bfloat16 against float32", "all within"),
    ],
    "r6_words": [
        ("Functional.gelu.0.forward", "approximate='tanh'", "does not pass"),
        ("Functional.cross_entropy.0.forward", "reduction='sum'", "the baseline with 'mean'"),
        ("Functional.linear.0.forward", "called without input.2", "[16]"),
        ("Tensor.softmax.0.forward", "dim=0", "the baseline with -1"),
    ],
    "r7_rate": [
        (f"{task} {factor} step 0", "in optimizer", "called with", "the baseline with")
        for task in ("statistics", "tensor")
        for factor in FACTORS
    ],
    "r8_view_called_weights": [
        ("Torch.addmm.0.forward", "input.1", "Functional.layer_norm.0.forward, which made it", "is not recorded")
    ],
    "r9_cast_blamed": [("different dtypes, bfloat16 against float32", "all within")],
    "r10_detached": [("Tensor.add.0.backward", "a gradient is missing", "input.1", "Functional.linear.0.forward made")],
}
UNTRUE = {"r8_view_called_weights": "weights"}


def answers(script, folder):
    """Return the lines that a script prints, without those of the recorder."""
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("torchparity: ")]


@pytest.mark.skipif(not REPROS.is_dir(), reason="the scripts of ../shared/repros are not here")
@pytest.mark.parametrize("name", TRUE)
def test_what_a_script_is_told_is_true(name, tmp_path):
    lines = answers(REPROS / f"{name}.py", tmp_path)

    assert len(lines) == len(TRUE[name])
    for line, parts in zip(lines, TRUE[name], strict=True):
        assert [part for part in parts if part not in line] == [], line
        assert UNTRUE.get(name, "no such words") not in line.partition(" (")[0]


@pytest.mark.skipif(not REPROS.is_dir(), reason="the scripts of ../shared/repros are not here")
def test_every_script_has_its_truth():
    assert {path.stem for path in REPROS.glob("*.py")} == set(TRUE)
