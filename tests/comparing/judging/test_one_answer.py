"""Programs with a fault: everything that a comparison prints or writes names the record of the headline."""

from __future__ import annotations

import json
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import torchparity
from tests.faultbed.plant import argument, wrong_gradient, wrong_output
from tests.support.planting import planted
from tests.support.squared_step import squared_step
from torchparity.cli import main
from torchparity.comparing.judging.wording.advice import advice


class Net(nn.Module):
    def __init__(self, rate=0.0, cut=False):
        super().__init__()
        self.rate, self.cut = rate, cut
        self.inner, self.norm, self.head = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 8)

    def forward(self, x):
        h = functional.dropout(functional.gelu(self.inner(x)), self.rate)
        h = self.norm(h.detach() if self.cut else h)
        return self.head(torch.tanh(h))


def training(*, record="", change=None, weight=1.0, scale=1.0, seed=0, lr=0.1, **settings):
    """Return a program with one thing changed."""

    def program():
        model, x = Net(**settings), torch.randn(4, 16) * scale
        model.inner.weight.data.mul_(weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        torch.manual_seed(seed)
        return model, squared_step(model, x, optimizer, partial(planted, record, change))

    return program


def scaled(y):
    return y * 1.01


GELU, TANH = "Functional.gelu.0.forward", "Torch.tanh.0.forward"
FAULTS = {
    "kernel": (training(record=TANH, change=wrong_output(scaled)), training(), "operator"),
    "gradient": (training(record=TANH, change=wrong_gradient(scaled)), training(), "operator"),
    "nan": (training(record=GELU, change=wrong_output(lambda y: y / 0)), training(), "non-finite"),
    "weights": (training(weight=1.01), training(), "weights"),
    "data": (training(scale=1.01), training(), "data"),
    "seed": (training(rate=0.1, seed=1), training(rate=0.1), "random numbers"),
    "detached": (training(cut=True), training(), "missing gradient"),
    "rate": (training(lr=0.11), training(), "argument"),
    "dropout": (training(rate=0.1), training(rate=0.2), "argument"),
}


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_face_names_the_record_of_the_headline(fault, task, record, tmp_path, capsys):
    candidate, baseline, kind = FAULTS[fault]
    runs = [str(record(name, program, task=task)) for name, program in (("c", candidate), ("b", baseline))]
    found = torchparity.compare(*runs).verdict
    capsys.readouterr()

    code = main(["compare", *runs, "-o", str(tmp_path / "tables"), "--fail-on", "divergence"])
    printed = capsys.readouterr().out
    main(["compare", *runs, "--json", "--fail-on", "divergence"])
    told = json.loads(capsys.readouterr().out)
    main(["compare", *runs, "-da", "-o", str(tmp_path / "nodes")])

    (advisor,) = (tmp_path / "tables").glob("advisor*.txt")
    (nodes,) = (tmp_path / "nodes").glob("diff_analyze*.json")
    assert (found.kind, code, told["exit_code"]) == (kind, 1, 1), found.sentence
    assert found.first.record in found.sentence and printed.startswith(found.sentence)
    assert (told["verdict"], told["sentence"], told["first"]["record"]) == (kind, found.sentence, found.first.record)
    assert found.first.record in advisor.read_text() and advice(found.kind, found.first) in advisor.read_text()
    assert found.first.record in nodes.read_text()


def test_a_kernel_that_was_called_with_another_argument_below_the_recorder_is_an_operator(record):
    """What the program passed is what counts; a kernel that computes something else is wrong."""
    change = argument("approximate", None, "tanh")
    runs = [record("c", training(record=GELU, change=change)), record("b", training())]

    found = torchparity.compare(*runs).verdict

    assert (found.kind, found.first.record) == ("operator", GELU)


def test_rounding_is_not_told_as_the_cause_of_what_it_does_not_explain(record):
    candidate, baseline, _ = FAULTS["kernel"]

    found = torchparity.compare(record("c", candidate), record("b", baseline)).verdict

    assert "; rounding of its own arithmetic" not in found.sentence
    assert "Mind: rounding of its own arithmetic" not in advice(found.kind, found.first)
