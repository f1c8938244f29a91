"""The simulated NPU gives the CPU's bits for PyTorch's own operator database, forward and backward."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import NEEDS_TORCH
from tests.support.processes import ROOT

EXCEPTIONS = Path(__file__).parent / "op_db_exceptions.toml"
EVERY = 3  # an entry in so many is tried here; `python -m tests.simulation.operator_database` tries all
FEWEST = 200

pytestmark = NEEDS_TORCH


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    pytest.importorskip("expecttest")
    command = [sys.executable, "-m", "tests.simulation.operator_database", "--samples", "2", "--every", str(EVERY)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def excepted() -> set[str]:
    tomllib = pytest.importorskip("tomllib")
    return {name for reason in tomllib.loads(EXCEPTIONS.read_text()).values() for name in reason["entries"]}


def test_the_entries_that_differ_are_those_that_are_listed(results):
    differing = {name: result for name, result in results.items() if result != "agrees"}

    assert {name: result for name, result in differing.items() if name not in excepted()} == {}
    assert excepted() & results.keys() == differing.keys()


def test_at_least_two_hundred_entries_agree(results):
    assert sum(result == "agrees" for result in results.values()) >= FEWEST
