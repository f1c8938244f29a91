"""Values saved by hand with `save`, and their gradients."""

from __future__ import annotations

import pytest
import torch

from torchparity import open_run
from torchparity.cli import main
from torchparity.recording import PrecisionDebugger, capture


def items(part, name):
    return {item.name: item.leaf and part.tensor(item.leaf).array.tolist() for item in part.records[name].items()}


def test_what_is_saved_nested_has_its_gradients_nested(tmp_path):
    x = torch.tensor([2.0], requires_grad=True)
    with capture(tmp_path, level="debug", task="tensor") as recording:
        y = x * 3
        z = y * 2
        recording.save({"a": y}, "dict")
        recording.save([y, y.detach(), (z, 1)], "lst")
        (z * 5).backward()

    part = open_run(tmp_path).part()

    assert items(part, "dict_grad.0.debug") == {"a": [10.0]}
    assert items(part, "lst_grad.0.debug") == {"0": [10.0], "1": None, "2.0": [5.0], "2.1": None}


def test_values_without_a_gradient_have_no_gradient_record(tmp_path):
    with capture(tmp_path, level="debug") as recording:
        recording.save({"a": torch.ones(1), "b": 3}, "plain")
        recording.save((torch.ones(1, requires_grad=True) * 2, None), "unused")

    assert set(open_run(tmp_path).part().records) == {"plain.0.debug", "unused.0.debug"}


def test_every_pass_through_the_graph_gives_the_gradients_once(tmp_path):
    x = torch.tensor([2.0], requires_grad=True)
    with capture(tmp_path, level="debug", task="tensor") as recording:
        y, z = x * 3, x * 4
        recording.save([y, z], "both")
        loss = y + z
        loss.backward(retain_graph=True)
        (y * 2).backward(retain_graph=True)

    part = open_run(tmp_path).part()

    assert [name for name in part.records if "grad" in name] == ["both_grad.0.debug", "both_grad.0.debug#2"]
    assert items(part, "both_grad.0.debug") == {"0": [1.0], "1": [1.0]}
    assert items(part, "both_grad.0.debug#2") == {"0": [2.0], "1": None}


def test_a_saved_value_may_get_its_gradient_twice(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with capture(tmp_path) as recording:
        y = x * 2
        recording.save(y, "y")
        total = y.sum()
        total.backward(retain_graph=True)
        total.backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    assert {"y.0.debug", "y_grad.0.debug", "y_grad.0.debug#2", "Tensor.mul.0.backward#2"} <= set(part.records)


def test_a_second_record_of_one_name_costs_itself_alone(tmp_path):
    with capture(tmp_path) as recording:
        recording.save(torch.ones(1), "y_grad")
        y = torch.ones(3, requires_grad=True) * 2
        recording.save(y, "y")
        y.sum().backward()
        recording.step()
        torch.exp(y)

    first, second = open_run(tmp_path).parts
    assert first.records["y_grad.0.debug"].value.shape == (1,)
    assert any("y_grad.0.debug" in problem for problem in first.problems)
    assert list(second.records) == ["Torch.exp.0.forward"]


@pytest.mark.parametrize("level", ["debug", "L1"])
def test_a_value_saved_again_is_looked_at_again(tmp_path, level):
    x = torch.ones(3)
    with capture(tmp_path, level=level) as recording:
        recording.save(x, "x")
        x.data.mul_(3)
        recording.save({"nested": [x]}, "x")

    records = open_run(tmp_path).part().records
    assert records["x.0.debug"].value.statistics.max == 1
    assert records["x.1.debug"].value["nested"][0].statistics.max == 3


def test_values_are_saved_at_level_debug_without_a_start(tmp_path):
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="debug")
    for step in range(2):
        recording.save(torch.full((2,), float(step)), "x")
        recording.step()
    PrecisionDebugger.close()

    run = open_run(tmp_path)
    assert run.steps == [0, 1]
    assert [run.part(step=step).records["x.0.debug"].value.statistics.max for step in run.steps] == [0, 1]


def test_a_value_saved_after_stop_is_warned_about(tmp_path, caplog):
    recording = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    recording.start()
    recording.stop()
    recording.save(torch.ones(1), "x")

    assert "save() records nothing before start() and after stop()" in caplog.text


def test_a_saved_value_can_be_shown_by_the_name_it_is_listed_under(tmp_path, capsys):
    with capture(tmp_path, level="debug", task="tensor") as recording:
        recording.save(torch.full((2,), 7.0), "x")

    assert main(["show", str(tmp_path), "x.0.debug"]) == 0
    assert "value" in capsys.readouterr().out
    assert main(["show", str(tmp_path), "x.0.debug", "--tensor", "value"]) == 0
    assert "7" in capsys.readouterr().out


def test_single_points_with_gradients(tmp_path):
    x = torch.tensor([2.0], requires_grad=True)
    with capture(tmp_path, level="debug", task="tensor") as recording:
        y = x * 3
        recording.save(y, "y")
        recording.save({"a": [y, None, 3], "b": "text"}, "nest")
        recording.save(y, "y")
        (y * 2).backward()

    part = open_run(tmp_path).part()

    assert set(part.records) == {
        "y.0.debug",
        "y.1.debug",
        "nest.0.debug",
        "y_grad.0.debug",
        "y_grad.1.debug",
        "nest_grad.0.debug",
    }
    assert part.tensor(part.records["y_grad.0.debug"].value).array.tolist() == [2.0]
    assert {item.name for item in part.records["nest.0.debug"].items()} == {"a.0", "a.1", "a.2", "b"}
