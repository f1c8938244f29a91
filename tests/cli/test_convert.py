"""torchparity convert: both ways, losing nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.runs import write_linear_run
from torchparity import open_run
from torchparity.cli import main
from torchparity.recording import capture
from torchparity.storage import record_to_json
from torchparity.storage.convert import _without_places


def same_content(left, right):
    a, b = open_run(left).part(), open_run(right).part()
    assert list(a.records) == list(b.records)
    for name in a.records:
        assert record_to_json(_without_places(a.records[name])) == record_to_json(_without_places(b.records[name]))
    assert (a.stacks, a.construct, a.info.task, a.info.level) == (b.stacks, b.construct, b.info.task, b.info.level)
    pairs = list(zip(a.tensors(), b.tensors(), strict=True))
    for (left_name, left_leaf), (right_name, right_leaf) in pairs:
        assert left_name == right_name
        assert np.array_equal(a.tensor(left_leaf).raw(), b.tensor(right_leaf).raw())
    return len(pairs)


@pytest.mark.parametrize("run", ["att-tensor-mix-base", "conv-tensor-L1-nan", "att-md5-mix-base"])
def test_an_msprobe_run_goes_to_safetensors_and_back(golden, run, tmp_path):
    source = golden / "runs" / run

    assert main(["convert", str(source), str(tmp_path / "shards"), "--to", "safetensors"]) == 0
    assert main(["convert", str(tmp_path / "shards"), str(tmp_path / "files"), "--to", "pt"]) == 0

    count = same_content(source, tmp_path / "shards")
    assert same_content(source, tmp_path / "files") == count
    assert count == len(list(source.rglob("*.pt")))
    assert {file.name for file in source.rglob("*.pt")} == {file.name for file in (tmp_path / "files").rglob("*.pt")}


def test_a_run_for_exchange_spells_nan_as_msprobe_does(golden, tmp_path):
    source = golden / "runs" / "att-tensor-mix-base"
    main(["convert", str(source), str(tmp_path / "files"), "--to", "pt"])
    main(["convert", str(source), str(tmp_path / "shards"), "--to", "safetensors"])

    bare, strict = (next((tmp_path / name).rglob("dump.json")).read_text() for name in ("files", "shards"))

    assert "-Infinity" in bare and '"-inf"' not in bare
    assert "-Infinity" not in strict and '"-inf"' in strict
    same_content(tmp_path / "files", tmp_path / "shards")


def test_what_is_damaged_is_said_and_the_rest_converted(tmp_path, capsys):
    run = write_linear_run(tmp_path / "run")
    shard = next(run.rglob("*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)

    code = main(["convert", str(run), str(tmp_path / "out"), "--to", "pt"])

    assert code == 2
    assert str(shard) in capsys.readouterr().err
    assert len(list((tmp_path / "out").rglob("*.pt"))) == 2
    problems = open_run(tmp_path / "out").part().verify()
    assert len(problems) == 1
    assert "Functional.linear.0.forward.output.0" in problems[0]


def test_converting_onto_itself_is_refused(linear_run, capsys):
    assert main(["convert", str(linear_run), str(linear_run), "--to", "pt", "--overwrite"]) == 2
    assert "holds the run that is to be converted" in capsys.readouterr().err
    assert open_run(linear_run).part().verify() == []


def test_a_dead_step_does_not_stop_the_others(tmp_path, capsys):
    run = write_linear_run(tmp_path / "run", steps=3)
    (run / "step0" / "rank0" / "dump.json").write_text("{")

    assert main(["convert", str(run), str(tmp_path / "out"), "--to", "pt"]) == 2
    assert open_run(tmp_path / "out").steps == [1, 2]


def test_a_folder_inside_the_run_is_refused(linear_run, capsys):
    assert main(["convert", str(linear_run), str(linear_run / "new"), "--to", "pt"]) == 2
    assert "lies inside it" in capsys.readouterr().err


def test_overwriting_removes_the_whole_old_run(tmp_path):
    new = write_linear_run(tmp_path / "new")
    old = write_linear_run(tmp_path / "old", steps=3, rank=5)

    assert main(["convert", str(new), str(old), "--to", "pt", "--overwrite"]) == 0
    assert (open_run(old).steps, open_run(old).ranks) == ([0], [0])


def test_who_wrote_a_run_is_remembered(golden, tmp_path):
    main(["convert", str(golden / "runs" / "conv-tensor-L1-base"), str(tmp_path / "out"), "--to", "safetensors"])

    assert open_run(tmp_path / "out").part().info.tool == "msprobe"


def test_an_existing_run_is_refused_unless_asked(linear_run, tmp_path, capsys):
    other = write_linear_run(tmp_path / "other")

    assert main(["convert", str(linear_run), str(other), "--to", "pt"]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert main(["convert", str(linear_run), str(other), "--to", "pt", "--overwrite"]) == 0


def test_a_run_without_values_is_told(tmp_path, capsys):
    with capture(tmp_path / "run"):
        torch.ones(2).exp()
    capsys.readouterr()

    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "files"), "--to", "pt"]) == 0
    assert capsys.readouterr().out.endswith("0 tensors as pt; the run has no values, which task 'tensor' keeps\n")
