"""Calls of optimizers belong together by the parameter that they step, whatever order the optimizer takes them in."""

from __future__ import annotations

import pytest
import torch
from torch import nn

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])
SIDES = pytest.mark.parametrize("is_swapped", [False, True], ids=["", "swapped"])


def in_order(model):
    return list(model.parameters())


def backwards(model):
    return list(model.parameters())[::-1]


def in_two_groups(model):
    parameters = list(model.parameters())
    return [{"params": [p for p in parameters if (p.ndim > 1) == is_matrix]} for is_matrix in (True, False)]


def training(parameters=in_order, plant=lambda model, optimizer: None, kind=torch.optim.Adam, **settings):
    def make():
        model, x = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3)), torch.randn(5, 6)
        optimizer = kind(parameters(model), **{"lr": 0.01, "foreach": False, **settings})

        def step():
            model(x).square().mean().backward()
            plant(model, optimizer)
            optimizer.step()
            optimizer.zero_grad()

        return model, step

    return make


def both(verdict, candidate, baseline, *, is_swapped, **settings):
    return verdict(*((baseline, candidate) if is_swapped else (candidate, baseline)), **settings)


@TASKS
@pytest.mark.parametrize("parameters", [backwards, in_two_groups])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_another_order_is_compared_in_the_last_step_too(verdict, task, parameters, kind):
    found = verdict(training(parameters, kind=kind), training(kind=kind), task=task)

    assert found.kind == "agree" and found.agreement.is_identical, found.sentence
    assert not found.not_compared


@SIDES
@pytest.mark.parametrize("parameters", [backwards, in_two_groups])
@pytest.mark.parametrize(("kind", "operator"), [(torch.optim.Adam, "addcdiv_"), (torch.optim.SGD, "add_")])
def test_another_setting_shows_in_another_order(verdict, is_swapped, parameters, kind, operator):
    found = both(verdict, training(parameters, kind=kind, lr=0.02), training(kind=kind), is_swapped=is_swapped)

    assert found.kind == "argument" and f"Tensor.{operator}." in found.first.record, found.sentence
    assert "; so in 5 more calls" in found.sentence


@SIDES
def test_a_wrong_state_shows_in_another_order(verdict, is_swapped):
    def wrong(model, optimizer):
        for state in list(optimizer.state.values())[:1]:
            state["exp_avg"].detach().numpy()[...] *= 2

    candidate, baseline = training(backwards, wrong), training()
    found = both(verdict, candidate, baseline, is_swapped=is_swapped, steps=2)

    assert found.kind == "unrecorded step" and found.first.module == "optimizer" and found.first.step == 1


def without_gradient(model, optimizer):
    model[0].bias.grad = None


@TASKS
@pytest.mark.parametrize("foreach", [False, True], ids=["loop", "foreach"])
@SIDES
def test_a_parameter_whose_gradient_is_none_in_one_run(verdict, task, foreach, is_swapped):
    candidate, baseline = training(plant=without_gradient, foreach=foreach), training(foreach=foreach)
    found = both(verdict, candidate, baseline, is_swapped=is_swapped, task=task)

    without = "baseline" if is_swapped else "candidate"
    said = f"a gradient is missing: the {without}'s optimizer steps without parameter 0.bias"
    assert found.kind == "missing gradient" and said in found.sentence, found.sentence


def test_a_gradient_that_is_none_in_a_later_step_alone(verdict):
    def later(model, optimizer):
        if len(optimizer.state):
            without_gradient(model, optimizer)

    found = verdict(training(plant=later, foreach=True), training(foreach=True), steps=2)

    assert found.kind == "missing gradient" and found.first.step == 1, found.sentence
    assert found.first.record == "Module.0.Linear.parameters_grad.0"


def test_a_parameter_that_neither_optimizer_takes_is_no_matter(verdict):
    found = verdict(training(backwards, without_gradient), training(plant=without_gradient))

    assert found.kind == "agree" and found.agreement.is_identical, found.sentence
