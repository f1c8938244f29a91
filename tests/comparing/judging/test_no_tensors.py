"""Differences that tensors of floats do not show: large whole numbers, saved values, nothing in place of a tensor."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import torchparity
from tests.support.dumps import call, constant, write_dump

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])
EXP, MUL = "Torch.exp.0.forward", "Tensor.mul.0.forward"


def tokens(*values):
    """Return a program that hashes whole numbers beyond what float64 holds."""

    def program():
        numbers = torch.tensor(values)
        return nn.Identity(), lambda: numbers * 1

    return program


@pytest.mark.parametrize("off", [1, 2, -1])
def test_large_whole_numbers_are_compared_exactly(verdict, off):
    large = 2**62 + 2**30
    found = verdict(tokens(3, large + off, 5, large), tokens(3, large, 5, large), task="tensor")

    assert (found.kind, found.first.record) == ("data", MUL), found.sentence
    assert found.first.deviation == pytest.approx(abs(off) / (large * math.sqrt(2)), rel=1)


@TASKS
def test_equal_large_whole_numbers_are_equal(verdict, task):
    found = verdict(tokens(3, 2**62 + 1), tokens(3, 2**62 + 1), task=task)

    assert found.kind == "agree" and found.agreement.is_identical


@pytest.fixture
def saved(tmp_path):
    """A function that saves a value in each of two runs, which are otherwise the same, and returns the verdict."""

    def run(mine, other, *, task="statistics", scale=1.0):
        for name, value, factor in (("c", mine, scale), ("b", other, 1.0)):
            torch.manual_seed(0)
            model, x = nn.Linear(4, 4), torch.randn(2, 4)
            with torchparity.capture(tmp_path / name, model=model, level="mix", task=task) as recording:
                model(x * factor)
                recording.save(value, "kept")
                recording.step()
        return torchparity.compare(tmp_path / "c", tmp_path / "b").verdict

    return run


SAVED = [
    pytest.param(4.0, 3.0, "kept.0.debug is 4.0, in the baseline 3.0", id="float"),
    pytest.param(3, 4, "kept.0.debug is 3, in the baseline 4", id="int"),
    pytest.param("left", "right", "kept.0.debug is 'left', in the baseline 'right'", id="text"),
    pytest.param({"k": [1, 2]}, {"k": [1, 3]}, "k.1 is 2, in the baseline 3", id="nested"),
    pytest.param(None, 1.5, "kept.0.debug is nothing, in the baseline 1.5", id="None"),
    pytest.param(torch.ones(2), None, "kept.0.debug is a tensor of shape [2], in the baseline nothing", id="tensor"),
]


@TASKS
@pytest.mark.parametrize(("mine", "other", "said"), SAVED)
def test_saved_values_that_differ_are_named(saved, mine, other, said, task):
    found = saved(mine, other, task=task)

    assert (found.kind, found.first.record) == ("unrecorded step", "kept.0.debug"), found.sentence
    assert said in found.sentence


@TASKS
@pytest.mark.parametrize("value", [3.0, "text", None, {"k": [1, 2]}], ids=str)
def test_saved_values_that_are_equal_are_not(saved, value, task):
    assert saved(value, value, task=task).kind == "agree"


def test_a_saved_value_that_may_follow_from_a_finding_is_not_another_one(saved):
    found = saved(4.0, 3.0, scale=1.01)

    assert found.first.record == MUL and found.also == ()


@pytest.mark.parametrize("is_missing", [True, False], ids=["candidate", "baseline"])
def test_a_call_that_returns_nothing_in_one_run_is_named(tmp_path, is_missing):
    whole, nothing = call([constant(1.0)], [constant(2.0)]), call([constant(1.0)], [None])
    runs = [nothing, whole] if is_missing else [whole, nothing]
    paths = [write_dump(tmp_path / str(number), {EXP: record}) for number, record in enumerate(runs)]

    found = torchparity.compare(*paths).verdict

    assert (found.kind, found.first.record) == ("operator", EXP), found.sentence
    side = "baseline" if is_missing else "candidate"
    assert f"inputs equal, output.0 is a tensor in the {side} alone" in found.sentence


def test_one_of_several_outputs_may_be_left_out(tmp_path):
    """Attention returns its weights where it has computed them."""
    runs = [call([constant(1.0)], [constant(2.0), second]) for second in (None, constant(3.0))]
    paths = [write_dump(tmp_path / str(number), {EXP: record}) for number, record in enumerate(runs)]

    assert torchparity.compare(*paths).verdict.kind == "agree"
