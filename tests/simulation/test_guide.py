"""The example in docs/simulated-npu.md runs, and names the fault that it plants; the faults of its table exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

from tests.simulation import NEEDS_TORCH
from tests.support.processes import ROOT
from torchparity import simulation

pytestmark = NEEDS_TORCH


PAGE = (ROOT / "docs" / "simulated-npu.md").read_text()


def test_the_faults_of_the_table_can_be_planted():
    rows = re.findall(r"^\| `(\w+\(\".*\))` \|", PAGE, re.MULTILINE)
    calls = [ast.parse(row, mode="eval").body for row in rows]
    planted = [
        getattr(simulation, call.func.id)(
            *map(ast.literal_eval, call.args),
            **{keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords},
        )
        for call in calls
    ]

    assert {type(fault) for fault in planted} == set(simulation.Fault.__subclasses__())
    assert simulation.NpuBehaviour(faults=planted).faults == tuple(planted)


def test_the_example_names_the_planted_fault_and_can_be_run_again(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "example.py").write_text(code)

    for _ in range(2):
        done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)
        assert "First divergence: Functional.layer_norm.0.forward" in done.stdout.splitlines()[-1], done.stderr
        assert done.stderr == ""
