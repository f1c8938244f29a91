"""The first rank and record where nan or inf arises, past communications that only passed it on."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from tests.support.rank_runs import RankRun
from torchparity import capture, open_run
from torchparity.cli import main
from torchparity.errors import ConfigError
from torchparity.overflow.origin import origins_of

X = np.arange(1, 5, dtype=np.float32)
NAN = np.array([1, np.nan, 2, 3], np.float32)
INF = np.array([1, np.inf, 2, 3], np.float32)
ALL_REDUCE = "Distributed.all_reduce"


def origin(run, path, **options):
    return origins_of(open_run(run.write(path / "run", **options)).parts)


def named(found):
    return [(node.arising.rank, node.arising.record.name, node.arising.place) for node in found.nodes]


def recorded(path, program):
    with capture(path / "run"):
        program()
    return origins_of(open_run(path / "run").parts)


def test_a_call_that_makes_nan_of_finite_numbers_is_the_origin(tmp_path):
    found = recorded(tmp_path, lambda: torch.log(torch.tensor([-5.0, 1.0])).exp().sum())

    assert named(found) == [(0, "Torch.log.0.forward", "computation")]
    assert "nan arises here: what it received is finite, output.0 has 1 nan among 2 elements" in found.sentence()
    assert "test_origin.py, line" in found.sentence()


def test_a_gradient_can_be_the_origin(tmp_path):
    def program():
        x = torch.zeros(2, requires_grad=True)
        (x.sqrt() * 0).sum().backward()

    assert named(recorded(tmp_path, program)) == [(0, "Tensor.sqrt.0.backward", "computation")]


def test_an_infinity_that_was_asked_for_is_no_origin_but_a_nan_made_of_it_is(tmp_path):
    def program():
        mask = torch.full((2, 3), -math.inf)
        torch.softmax(torch.zeros(2, 3) + mask, -1)

    assert named(recorded(tmp_path, program)) == [(0, "Torch.softmax.0.forward", "computation")]


def test_a_nan_that_was_asked_for_is_the_origin(tmp_path):
    assert named(recorded(tmp_path, lambda: torch.full((2,), math.nan) + 1)) == [
        (0, "Torch.full.0.forward", "computation")
    ]


def test_memory_that_nobody_has_written_is_no_origin(tmp_path):
    def program():
        torch.empty(3).copy_(torch.ones(3)).log()

    found = recorded(tmp_path, program)
    run = RankRun(1)
    run.call(0, "Torch.empty", [], [NAN])
    run.call(0, "Tensor.copy_", [NAN, X], [X])

    assert found.nodes == () and origin(run, tmp_path / "written").nodes == ()


def test_data_that_hold_nan_already_are_named_as_such(tmp_path):
    data = torch.tensor([1.0, math.nan])

    found = recorded(tmp_path, lambda: data + 1)

    assert named(found) == [(0, "Tensor.add.0.forward", "input")]
    assert "input.0, which comes from outside, has nan already" in found.sentence()


def test_a_collective_that_passed_it_on_leads_to_the_rank_that_sent_it(tmp_path):
    run = RankRun(3)
    for rank in range(3):
        run.call(rank, "Torch.exp", [X], [X])
        run.call(rank, "Torch.log", [X], [INF if rank == 2 else X])
        run.call(rank, ALL_REDUCE, [INF if rank == 2 else X], [INF])
        run.call(rank, "Torch.sin", [INF], [NAN])

    assert named(origin(run, tmp_path)) == [(2, "Torch.log.0.forward", "computation")]


def test_sends_are_followed_back_over_several_ranks(tmp_path):
    run = RankRun(3)
    run.call(0, "Torch.exp", [X], [NAN])
    run.call(0, "Distributed.send", [NAN, 1], [NAN, 1])
    run.call(1, "Distributed.recv", [X, 0], [NAN, 0])
    run.call(1, "Distributed.send", [NAN, 2], [NAN, 2])
    run.call(2, "Distributed.recv", [X, 1], [NAN, 1])

    assert named(origin(run, tmp_path)) == [(0, "Torch.exp.0.forward", "computation")]


@pytest.mark.parametrize("operator", [ALL_REDUCE, "Distributed.broadcast"])
def test_a_communication_is_at_fault_where_all_sent_finite_numbers(operator, tmp_path):
    run = RankRun(2)
    for rank in range(2):
        run.call(rank, operator, [X, 0] if "broadcast" in operator else [X], [INF if rank == 1 else X])

    found = origin(run, tmp_path)

    assert named(found) == [(1, f"{operator}.0.forward", "communication")]
    assert "inf arises in the communication itself: what the ranks sent is finite" in found.sentence()


def test_a_rank_that_was_not_recorded_is_said(tmp_path):
    run = RankRun(3)
    for rank in range(3):
        run.call(rank, ALL_REDUCE, [INF if rank == 2 else X], [INF])

    found = origin(run, tmp_path, only=(0, 1))

    assert named(found) == [(rank, f"{ALL_REDUCE}.0.forward", "communication") for rank in range(2)]
    assert "what rank 2 sent is not recorded" in found.sentence()


def test_ranks_that_fail_on_their_own_are_all_told(tmp_path):
    run = RankRun(2)
    for rank in range(2):
        run.call(rank, "Torch.log", [X], [NAN])
        run.call(rank, ALL_REDUCE, [NAN], [NAN])

    assert named(origin(run, tmp_path)) == [(rank, "Torch.log.0.forward", "computation") for rank in range(2)]


def test_the_command_writes_msprobes_file(tmp_path, capsys):
    run = RankRun(2)
    run.call(0, "Torch.log", [X], [X])
    run.call(1, "Torch.log", [X], [NAN])
    step = run.write(tmp_path / "run") / "step0"
    folder = tmp_path / "out"

    assert main(["overflow", "--origin", str(step), "-o", str(folder), "--fail-on", "overflow"]) == 1

    said = capsys.readouterr().out
    assert said.startswith("step 0, rank 1: Torch.log.0.forward: nan arises here")
    (file,) = folder.glob("anomaly_analyze_*.json")
    nodes = json.loads(file.read_text())
    (node,) = nodes.pop("rank_1")
    assert nodes == {} and node["op_name"] == "Torch.log.0.forward"
    assert set(node["data_info"]) == {"input_args", "input_kwargs", "output"}
    assert node["data_info"]["input_args"][0]["Max"] == 4
    assert node["construct_info"] == ["Torch.log.0.forward"] and node["stack_info"] == ["File job.py, line 7, in main"]


@pytest.mark.parametrize("command", ["overflow_check", "nan_analyze"])
def test_msprobes_commands_do_the_same(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = RankRun(1)
    run.call(0, "Torch.log", [X], [NAN])

    assert main([command, "-i", str(run.write(tmp_path / "run") / "step0")]) == 0

    assert "Torch.log.0.forward: nan arises here" in capsys.readouterr().out
    assert len(list((tmp_path / "output").glob("anomaly_analyze_*.json"))) == 1


def test_where_nothing_arises_no_file_is_written(tmp_path, capsys):
    run = RankRun(2)
    for rank in range(2):
        run.call(rank, "Torch.log", [X], [X])
    path = run.write(tmp_path / "run")

    words = ["overflow", "--origin", str(path), "-o", str(tmp_path / "out"), "--fail-on", "overflow"]
    assert main(words) == 0

    assert capsys.readouterr().out == "No nan or inf arises in 2 records of 2 ranks.\n"
    assert not (tmp_path / "out").exists()


def test_a_run_without_statistics_is_refused(tmp_path):
    with capture(tmp_path / "run", summary_mode="xor"):
        torch.ones(3).exp()

    with pytest.raises(ConfigError, match="reads Max and Min"):
        origins_of(open_run(tmp_path / "run").parts)
