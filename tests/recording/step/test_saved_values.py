"""Values saved by hand: their gradients have the shape of what was saved."""

from __future__ import annotations

import torch

from torchparity import open_run
from torchparity.recording import capture


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
