"""Programs with a fault: what the nodes of `-da` say agrees with the headline, key by key."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional

import torchparity
from tests.faultbed.plant import wrong_output
from tests.support.planting import planted
from tests.support.processes import ROOT
from torchparity.cli import main

GELU = "Functional.gelu.0.forward"


class Net(nn.Module):
    def __init__(self, form, cut):
        super().__init__()
        self.form, self.cut, self.up, self.down = form, cut, nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        h = functional.gelu(self.up(x), approximate=self.form)
        return self.down(h.detach() if self.cut else h)


def training(*, form="none", cut=False, weight=1.0, change=None):
    def program():
        model, x = Net(form, cut), torch.randn(4, 16)
        model.up.weight.data.mul_(weight)

        def step():
            with planted(GELU, change):
                model(x).square().mean().backward()

        return model, step

    return program


FOUND = [
    pytest.param({"change": wrong_output(lambda y: y * 1.01)}, "inputs equal, output differs", id="operator"),
    pytest.param({"form": "tanh"}, "called with another argument", id="argument"),
    pytest.param({"weight": 1.01}, "differs already in its inputs/parameters", id="weights"),
    pytest.param({"cut": True}, "a gradient is missing", id="gradient"),
]


@pytest.fixture
def node_of(record, tmp_path):
    """A function that records a program and the right one, and returns the first node and the first finding."""

    def run(task, **changes):
        runs = [str(record("c", training(**changes), task=task)), str(record("b", training(), task=task))]
        main(["compare", *runs, "-da", "-o", str(tmp_path / "out")])
        (file,) = (tmp_path / "out").glob("diff_analyze*.json")
        return json.loads(file.read_text())["rank_0"][0], torchparity.compare(*runs).verdict

    return run


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(("changes", "said"), FOUND)
def test_a_node_says_what_the_headline_says(node_of, changes, said, task):
    node, found = node_of(task, **changes)

    assert node["finding"] == said
    assert (node["kind"], node["sentence"], node["op_name"]) == (found.kind, found.sentence, found.first.record)


def test_numbers_of_a_node_are_numbers(node_of):
    node, found = node_of("statistics", change=wrong_output(lambda y: y * 1.01))

    deviations = {name: entry["deviation"] for side in node["data_info"].values() for name, entry in side.items()}
    assert deviations[f"{GELU}.{found.first.item}"] == pytest.approx(found.first.deviation)
    assert all(value is None or isinstance(value, float) for value in deviations.values()), deviations


def test_the_page_has_every_key_of_a_node(node_of):
    node, _ = node_of("statistics", weight=1.01)
    page = (ROOT / "docs" / "verdicts.md").read_text().partition("## The nodes of")[2].partition("\n## ")[0]

    assert [key for key in node if f"`{key}`" not in page] == []
    assert "order" not in node, "position is the place in the run; another number beside it would contradict it"
