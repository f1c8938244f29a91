"""Arguments and outputs of every form, as items of a record."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import capture
from torchparity.records import ValueLeaf


def test_a_dataclass_is_recorded_field_by_field(tmp_path):
    @dataclass
    class Found:
        scores: torch.Tensor
        count: int
        hidden: list

    class Model(nn.Module):
        def forward(self, x):
            return Found(x * 2, 3, [x + 1])

    model = Model()
    with capture(tmp_path, level="L0", model=model):
        found = model(torch.ones(2, requires_grad=True))
        (found.scores.sum() * 5 + found.hidden[0].sum()).backward()

    records = open_run(tmp_path).part().records
    output = records["Module.Model.forward.0"].output[0]
    assert output["scores"].statistics.max == 2.0
    assert output["count"] == ValueLeaf("int", 3)
    flowing_in = records["Module.Model.backward.0"].input_args[0]
    assert flowing_in["scores"].statistics.max == 5.0
    assert flowing_in["hidden"][0].statistics.max == 1.0


def test_arguments_that_are_no_tensors_are_kept(tmp_path):
    x = torch.randn(2, 3)
    with capture(tmp_path):
        x.sum(dim=1, dtype=torch.float64)
        x[..., 0:2]

    records = open_run(tmp_path).part().records

    assert records["Tensor.sum.0.forward"].input_kwargs == {
        "dim": ValueLeaf("int", 1),
        "dtype": ValueLeaf("torch.dtype", "torch.float64"),
    }
    assert records["Tensor.__getitem__.0.forward"].input_args[1] == [
        ValueLeaf("Ellipsis"),
        ValueLeaf("slice", [0, 2, None]),
    ]


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_half_a_surrogate_pair_costs_a_letter_alone(task, tmp_path):
    class Named(nn.Module):
        def forward(self, x, name):
            return x + 1

    model = Named()
    with capture(tmp_path, model=model, level="L0", task=task):
        model(torch.ones(2), name="a\ud800")

    part = open_run(tmp_path).part()
    assert part.problems == []
    assert part.records["Module.Named.forward.0"].input_kwargs["name"].value == "a?"


def test_keys_that_are_spelt_alike_are_items_of_their_own(tmp_path):
    class Sums(nn.Module):
        def forward(self, parts):
            return sum(parts.values())

    model = Sums()
    parts = {key: torch.full((2,), float(number), requires_grad=True) for number, key in enumerate(["a.b", "a_b", "a"])}
    with capture(tmp_path, model=model, level="L0"):
        model(parts).sum().backward()

    records = open_run(tmp_path).part().records
    seen = records["Module.Sums.forward.0"].input_args[0]
    assert sorted(leaf.statistics.max for leaf in seen.values()) == [0, 1, 2]
    assert len(records["Module.Sums.backward.0"].output[0]) == 3


@dataclass(eq=False)
class Leaf:
    value: object
    others: object = None
    more: object = None
    parent: object = None


def test_objects_that_refer_to_one_another_are_looked_at_once(tmp_path):
    class Trees(nn.Module):
        def forward(self, root):
            return root.value * 2

    def tree(depth, parent):
        node = Leaf(torch.ones(2, requires_grad=True), parent=parent)
        if depth:
            node.others, node.more = tree(depth - 1, node), tree(depth - 1, node)
        return node

    model, circle = Trees(), []
    circle += [circle, circle, torch.ones(1)]
    with capture(tmp_path, model=model) as recording:
        model(tree(4, None)).sum().backward()
        recording.save(circle, "circle")

    part = open_run(tmp_path).part()
    assert part.problems == []
    root = part.records["Module.Trees.forward.0"].input_args[0]
    assert root["others"]["more"]["value"].statistics.max == 1 and root["others"]["parent"].type.endswith("Leaf")
    assert part.records["Module.Trees.backward.0"].output[0]["value"].statistics.max == 2


def test_two_items_of_one_name_cost_that_record_only(tmp_path, capsys):
    class Odd(nn.Module):
        def forward(self, *args, **kwargs):
            return args[0] + kwargs["0"]

    module = Odd()
    with capture(tmp_path, model=module, task="tensor"):
        module(torch.ones(1), **{"0": torch.ones(1)})

    part = open_run(tmp_path).part()
    assert "Tensor.add.0.forward" in part.records and "Module.Odd.forward.0" not in part.records
    assert "two items named 'input.0'" in capsys.readouterr().out
    assert any("two items" in problem for problem in part.problems)
