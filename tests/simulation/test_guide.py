"""The example in docs/simulated-npu.md runs, and names the fault that it plants."""

from __future__ import annotations

import re

from tests.simulation import NEEDS_TORCH
from tests.support.processes import ROOT, run_python

pytestmark = NEEDS_TORCH


def test_the_example_names_the_planted_fault(tmp_path):
    text = (ROOT / "docs" / "simulated-npu.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    done = run_python(f"import os, sys; os.chdir(sys.argv[1])\n{code}", tmp_path)

    assert "First divergence: Functional.layer_norm.0.forward" in done.stdout.splitlines()[-1], done.stderr
