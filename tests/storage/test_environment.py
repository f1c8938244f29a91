"""The environment in the head of dump.json: written for each step, kept by a conversion, read whatever it holds."""

from __future__ import annotations

import json

import pytest

from torchparity import open_run
from torchparity.records import Record
from torchparity.storage import RunWriter, convert_run

RECORD = Record(name="Torch.exp.0.forward", direction="forward")


def environments(path):
    return [part.info.environment for part in open_run(path).parts]


def write_two_steps(path):
    with RunWriter(path, environment={"torch": "2.13.0"}) as writer:
        for step, environment in enumerate((None, {"torch": "2.13.0", "tf32.matmul": "on"})):
            writer.start_step(step)
            writer.add(RECORD)
            writer.finish_step(environment=environment)


def test_a_step_has_its_own_environment_or_that_of_the_start(tmp_path):
    write_two_steps(tmp_path)

    assert environments(tmp_path) == [{"torch": "2.13.0"}, {"torch": "2.13.0", "tf32.matmul": "on"}]


def test_a_conversion_keeps_it(tmp_path):
    write_two_steps(tmp_path / "run")

    convert_run(open_run(tmp_path / "run"), tmp_path / "converted", "pt")

    assert environments(tmp_path / "converted") == environments(tmp_path / "run")


def test_a_step_that_was_cut_off_has_that_of_the_start(tmp_path):
    writer = RunWriter(tmp_path, environment={"torch": "2.13.0"})
    writer.start_step(0)
    writer.add(RECORD)
    writer.close()

    assert environments(tmp_path) == [{"torch": "2.13.0"}]


@pytest.mark.parametrize(
    ("hostile", "read"),
    [
        pytest.param(None, {}, id="null"),
        pytest.param([["torch", "2.13.0"]], {}, id="list"),
        pytest.param("torch", {}, id="text"),
        pytest.param({"torch": {"version": "2.13.0"}, "seed": 3, "cpu": None, "python": "3.11"}, {"python": "3.11"}),
        pytest.param({"k" * 9999: "v" * 9999}, {"k" * 300: "v" * 300}, id="long"),
        pytest.param({str(key): "on" for key in range(999)}, {str(key): "on" for key in range(200)}, id="many"),
    ],
)
def test_anything_may_stand_in_its_place(tmp_path, hostile, read):
    folder = tmp_path / "step0" / "rank0"
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "L1", "torchparity": {"version": "9", "environment": hostile}, "data": {}}
    (folder / "dump.json").write_text(json.dumps(head))

    assert environments(tmp_path) == [read]
