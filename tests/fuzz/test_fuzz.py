"""Mutated files through every reader: no crash, no hang, no code run, little memory.

Short in the suite; `make fuzz` sets TORCHPARITY_FUZZ_CASES to run at least 10,000 cases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

CASES = int(os.environ.get("TORCHPARITY_FUZZ_CASES", "250"))


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "target",
    [
        *("dump.json", "shard", "pt", "journal", "stack.json", "pkl", "npy"),
        *("forward_info", "backward_info", "stack_info"),
    ],
)
def test_mutated_files_are_answered_with_a_sentence(target, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.mutate", target, str(CASES), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    print(json.dumps(result))
    assert result["cases"] == CASES
    # Both must happen, or the mutations are too weak or too strong to prove anything.
    assert result["refused"] > CASES // 20
    assert result["read"] > CASES // 20
    assert result["slowest_seconds"] < 1
    assert result["peak_mib"] < 1024
