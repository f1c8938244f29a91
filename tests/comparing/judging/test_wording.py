"""Programs with one change: the words of the headline and of the lines below it are true, and said once."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import torchparity
from tests.faultbed.plant import wrong_output
from tests.support.planting import planted
from tests.support.squared_step import squared_step
from torchparity.cli import main
from torchparity.comparing.judging.wording.advice import advice

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])
GELU, TANH = "Functional.gelu.0.forward", "Torch.tanh.0.forward"


class Net(nn.Module):
    def __init__(self, epsilon):
        super().__init__()
        self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 8)
        self.first, self.second = nn.LayerNorm(16, eps=epsilon), nn.LayerNorm(16, eps=epsilon)

    def forward(self, x):
        h = self.first(functional.gelu(self.up(x)))
        return self.down(self.second(torch.tanh(h)))


def training(*, epsilon=1e-5, lr=0.1, weights=1.0, change=None):
    """Return a program that trains the net with Adam; `change` is one of gelu."""

    def program():
        model, x = Net(epsilon), torch.randn(4, 16)
        for weight in model.parameters():
            weight.data.mul_(weights)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, foreach=False)
        return model, squared_step(model, x, optimizer, partial(planted, GELU, change))

    return program


@pytest.fixture
def printed(record, capsys):
    """A function that records two programs, compares them and returns the lines that are printed."""

    def run(candidate, baseline, *options, task="statistics"):
        runs = [str(record(name, made, task=task)) for name, made in (("c", candidate), ("b", baseline))]
        capsys.readouterr()
        main(["compare", *runs, *options])
        return capsys.readouterr().out.splitlines()

    return run


@TASKS
def test_an_agreement_says_what_ignore_leaves_out(printed, task):
    wrong = training(change=wrong_output(lambda y: y * 1.01))

    headline, *_ = printed(wrong, training(), "--ignore", GELU, task=task)

    assert headline.startswith("The runs agree, apart from what --ignore leaves out (1 place, first "), headline
    assert GELU in headline and "the largest deviation" not in headline, "all that differs follows from gelu"


@TASKS
def test_an_agreement_says_from_where_on_it_holds(printed, task):
    wrong = training(change=wrong_output(lambda y: y * 1.01))

    headline, *_ = printed(wrong, training(), "--after", "Functional.layer_norm.1.forward", task=task)

    assert "behind Functional.layer_norm.1.forward, where --after begins" in headline


def test_nothing_behind_a_record_is_no_agreement(record):
    """The pattern names what only the candidate has, so that no pair of records is behind it."""
    runs = [record("c", training()), record("b", training())]

    found = torchparity.compare(*runs, after="*addcdiv_.7.forward").verdict

    assert found.kind == "cannot tell" and "--after *addcdiv_.7.forward leaves no record to compare" in found.sentence


def test_ignoring_what_agrees_changes_no_word(record):
    runs = [record("c", training()), record("b", training())]

    assert torchparity.compare(*runs, ignore=["*gelu*"]).headline() == torchparity.compare(*runs).headline()


@TASKS
def test_a_setting_of_the_optimizer_is_told_once(printed, task):
    lines = printed(training(lr=0.11), training(), task=task)

    assert "Tensor.addcdiv_.0.forward in optimizer: called with input.value=-1.1" in lines[0]
    assert "; so in 7 more calls" in lines[0], "eight parameters are updated"
    assert [line for line in lines if line.startswith(("Also", "Note"))] == []


@TASKS
def test_an_argument_without_an_effect_is_told_once(printed, task):
    headline, *others = printed(training(epsilon=1.0000001e-5), training(), task=task)

    notes = [line for line in others if line.startswith("Note")]
    assert headline.startswith("The runs") and len(notes) == 1
    assert "Functional.layer_norm.0.forward" in notes[0] and "; so in 1 more call" in notes[0]


@TASKS
def test_other_weights_are_told_once_with_their_names(printed, task):
    lines = printed(training(weights=1.01), training(), task=task)

    assert "the weights differ already: parameter up.weight (input.1) is off by " in lines[0]
    assert "; so do 5 more: up.bias, " in lines[0], "the biases of both norms are zero"
    assert not any("weights" in line for line in lines[1:] if line.startswith("Also"))


EFFECTS = [
    pytest.param(1.0000001e-5, None, "without any effect: its output is equal", id="no effect"),
    pytest.param(1.001e-5, None, "with an effect within rounding: its output is off by ", id="rounding"),
    pytest.param(1.2e-5, 1e-2, "with an effect within --tolerance: its output is off by ", id="tolerance"),
]


@TASKS
@pytest.mark.parametrize(("epsilon", "tolerance", "said"), EFFECTS)
def test_the_effect_of_an_argument_is_one_of_three(record, epsilon, tolerance, said, task):
    runs = [record("c", training(epsilon=epsilon), task=task), record("b", training(), task=task)]

    found = torchparity.compare(*runs, tolerance=tolerance).verdict

    (told,) = [text for text in (found.sentence, *found.remarks) if "eps" in text]
    assert said in told, told


def with_another_dimension(func, args, kwargs):
    return func(*args, **kwargs)[None]


INFINITE = [
    pytest.param(wrong_output(lambda y: y * math.nan), "output.0 has nan in the candidate alone", id="nan"),
    pytest.param(
        wrong_output(lambda y: torch.where(y > 0, math.inf, y)), "output.0 has inf in the candidate alone", id="inf"
    ),
    pytest.param(with_another_dimension, "output.0 has another shape", id="shape"),
]


@TASKS
@pytest.mark.parametrize(("change", "said"), INFINITE)
def test_what_no_number_tells_is_said_in_words(printed, change, said, task):
    lines = printed(training(change=change), training(), task=task)

    assert said in lines[0] and "more than any number" not in "".join(lines)


@TASKS
def test_data_with_nan_say_so(printed, task):
    def program(value):
        def make():
            model, x = Net(1e-5), torch.randn(4, 16)
            x[0, 0] = value
            return model, lambda: model(x).square().mean().backward()

        return make

    headline, *_ = printed(program(math.nan), program(1.0), task=task)

    assert "the data differ already; input.0, which comes from outside, has nan in the candidate alone" in headline


def test_the_terminal_says_what_to_do_next(printed, tmp_path, capsys):
    lines = printed(training(change=wrong_output(lambda y: y * 1.01)), training())

    found = torchparity.compare(tmp_path / "c", tmp_path / "b").verdict
    assert [line for line in lines if line.startswith("Next: ")] == [f"Next: {advice(found.kind, found.first)}"]
    main(["compare", str(tmp_path / "c"), str(tmp_path / "b"), "--json"])
    assert capsys.readouterr().out.count(json.dumps(advice(found.kind, found.first))) == 1
