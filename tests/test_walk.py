"""The walk of one call stays short: Python calls, files, and hand-overs between files."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

# Of the second `F.linear` of a step, before there was a dispatcher: the longest walk that is still allowed.
LONGEST = {"calls": 69, "files": 14, "file_switches": 37}


@pytest.fixture(scope="module")
def walks():
    command = [sys.executable, str(ROOT / "tools" / "walk.py")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {walk["walk"]: walk for walk in map(json.loads, (line for line in lines if line.startswith("{")))}


@pytest.mark.parametrize("what", LONGEST)
def test_a_recorded_linear_takes_fewer_steps_than_it_did(walks, what):
    assert 0 < walks["forward"][what] < LONGEST[what]
