"""What one run alone does between two steps: writes to weights, to an optimizer's state, to buffers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])


def training(after_step=lambda model, optimizer: None, *, make_optimizer=torch.optim.Adam, steps_at=lambda: True):
    def make():
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 1))
        optimizer, x = make_optimizer(model.parameters(), lr=1e-2), torch.randn(5, 4)

        def step():
            model(x).pow(2).mean().backward()
            if steps_at():
                optimizer.step()
            optimizer.zero_grad()
            after_step(model, optimizer)

        return model, step

    return make


@torch.no_grad()
def decay_weights(model, optimizer):
    for parameter in model.parameters():
        parameter.mul_(1 - 1e-2)


def scale_weight_a_little(model, optimizer):
    model[0].weight.data.mul_(1 - 3e-4)


def forget_averages(model, optimizer):
    for state in optimizer.state.values():
        state["exp_avg"].zero_()
        state["exp_avg_sq"].mul_(5)


def forget_momentum(model, optimizer):
    for state in optimizer.state.values():
        state["momentum_buffer"].zero_()


def shift_mean(model, optimizer):
    model[2].running_mean.add_(5)


def reset_statistics(model, optimizer):
    model[2].reset_running_stats()


def momentum(parameters, lr):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


WRITES = pytest.mark.parametrize(
    ("write", "optimizer", "call"),
    [
        pytest.param(decay_weights, torch.optim.Adam, "mul_", id="weights"),
        pytest.param(scale_weight_a_little, torch.optim.Adam, "mul_", id="one weight"),
        pytest.param(forget_averages, torch.optim.Adam, "zero_ mul_", id="state"),
        pytest.param(forget_momentum, momentum, "zero_", id="momentum"),
        pytest.param(shift_mean, torch.optim.Adam, "add_", id="buffer"),
        pytest.param(reset_statistics, torch.optim.Adam, "zero_ fill_", id="reset buffers"),
    ],
)


@TASKS
@WRITES
def test_a_write_between_steps_that_only_the_candidate_makes_is_named(verdict, task, write, optimizer, call):
    mine, other = training(write, make_optimizer=optimizer), training(make_optimizer=optimizer)

    found = verdict(mine, other, steps=2, task=task)

    assert found.kind == "another call" and found.first.step == 0, found.sentence
    assert found.first.record.split(".")[1] in call.split(), found.sentence
    assert "only the candidate makes this call; step 1, " in found.sentence


@TASKS
@WRITES
def test_a_write_between_steps_that_only_the_baseline_makes_is_named(verdict, task, write, optimizer, call):
    mine, other = training(make_optimizer=optimizer), training(write, make_optimizer=optimizer)

    found = verdict(mine, other, steps=2, task=task)

    assert found.kind == "another call" and found.first.step == 1, found.sentence
    assert found.first.partner.split(".")[1] in call.split(), found.sentence
    assert f"after step 0, {found.first.partner}, which only the baseline has" in found.sentence


@TASKS
def test_writes_between_steps_that_change_nothing_agree(verdict, task):
    @torch.no_grad()
    def rewrite(model, optimizer):
        for parameter in model.parameters():
            parameter.mul_(3.0).div_(3.0)

    found = verdict(training(rewrite, make_optimizer=momentum), training(make_optimizer=momentum), steps=3, task=task)

    assert found.kind == "agree", found.sentence


@TASKS
@pytest.mark.parametrize("sides", [(True, False), (False, True)])
def test_optimizers_that_update_all_weights_at_once_or_one_by_one_agree(verdict, task, sides):
    mine, other = (
        training(make_optimizer=lambda parameters, lr, each=each: torch.optim.AdamW(parameters, lr=lr, foreach=each))
        for each in sides
    )

    found = verdict(mine, other, steps=4, task=task)

    assert found.kind == "agree", found.sentence


@TASKS
@pytest.mark.parametrize("steps", [1, 2])
def test_weights_that_only_the_candidate_writes_at_the_very_end_are_no_agreement(verdict, task, steps):
    written = iter([False] * (steps - 1) + [True])

    def scale_at_the_end(model, optimizer):
        if next(written):
            model[0].weight.data.mul_(2)

    found = verdict(training(scale_at_the_end), training(), steps=steps, task=task)

    assert found.kind == "another call" and found.first.step == steps - 1, found.sentence
    assert "only the candidate makes this call, which writes parameter 0.weight" in found.sentence


@TASKS
def test_a_step_that_only_the_baseline_takes_is_no_agreement(verdict, task):
    found = verdict(training(steps_at=lambda: False), training(), task=task)

    assert found.kind == "another call" and found.first.partner.startswith("Tensor.addcdiv_."), found.sentence
    assert f"which {found.first.partner} writes after it in the baseline alone" in found.sentence


@TASKS
def test_a_step_that_only_the_candidate_takes_is_no_agreement(verdict, task):
    found = verdict(training(), training(steps_at=lambda: False), task=task)

    assert found.kind == "another call" and found.first.module == "optimizer", found.sentence


@TASKS
@pytest.mark.parametrize("settings", [{"foreach": True}, {"fused": True}], ids=["foreach", "fused"])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_one_step_of_an_optimizer_in_two_ways_agrees(verdict, task, settings, is_swapped):
    def program(**settings):
        return training(make_optimizer=lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, **settings))

    programs = (program(**settings), program(foreach=False))

    found = verdict(*(programs[::-1] if is_swapped else programs), task=task)

    assert found.kind == "agree", found.sentence


@TASKS
def test_weights_that_are_swapped_and_restored_at_the_end_agree(verdict, task):
    @torch.no_grad()
    def swap_and_restore(model, optimizer):
        for parameter in model.parameters():
            kept = parameter.clone()
            parameter.copy_(torch.zeros_like(parameter))
            parameter.copy_(kept)

    found = verdict(training(swap_and_restore), training(), task=task)

    assert found.kind == "agree", found.sentence
