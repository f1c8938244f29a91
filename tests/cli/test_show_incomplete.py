"""torchparity show on runs that say themselves what they lack."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from tests.support.runs import write_linear_run
from torchparity import RunWriter, open_run
from torchparity.recording import capture


def show(*arguments):
    command = [sys.executable, "-m", "torchparity", "show", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def interrupted_run(tmp_path):
    """A run whose second step was ended by an exception of the training's."""
    with pytest.raises(ValueError, match="bad batch"), capture(tmp_path / "run") as recording:
        torch.exp(torch.ones(2))
        recording.step()
        torch.exp(torch.ones(2))
        raise ValueError("bad batch")
    return tmp_path / "run"


def test_a_step_that_an_exception_ended_is_incomplete_not_damaged(interrupted_run):
    done = show(interrupted_run)

    assert done.returncode == 2
    assert "damaged" not in done.stdout
    rows = done.stdout.splitlines()
    assert [row.split()[-1] for row in rows if row.startswith(("0     0 ", "1     0 ")) and "KiB" in row] == [
        "complete",
        "incomplete",
    ]
    assert "1     0     step 1 was cut off by ValueError." in rows
    assert "step 1 was cut off by ValueError." in done.stderr


def test_programs_see_what_is_missing_apart_from_damage(interrupted_run):
    parts = json.loads(show(interrupted_run, "--json").stdout)["parts"]

    assert [part["missing"] for part in parts] == [[], ["step 1 was cut off by ValueError."]]
    assert [part["is_damaged"] for part in parts] == [False, False]
    assert open_run(interrupted_run).part(step=1).missing == ["step 1 was cut off by ValueError."]


def test_damage_weighs_more_than_what_is_missing(interrupted_run):
    (interrupted_run / "step1" / "rank0" / "stack.json").write_text("{")

    done = show(interrupted_run)

    assert "damaged" in done.stdout and "step 1 was cut off by ValueError." in done.stdout


def test_a_complete_run_has_no_list_of_what_is_missing(tmp_path):
    assert "missing" not in show(write_linear_run(tmp_path / "run")).stdout


def test_what_is_said_in_both_record_files_is_missing_once(tmp_path):
    with RunWriter(tmp_path / "both") as writer:
        writer.start_step(0)
        writer.finish_step(missing=["one sentence."])
    folder = tmp_path / "both" / "step0" / "rank0"
    (folder / "debug.json").write_bytes((folder / "dump.json").read_bytes())

    part = open_run(tmp_path / "both").part()

    assert part.missing == ["one sentence."]
    assert part.problems == [f"{folder}: one sentence."]
