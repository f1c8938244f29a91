"""Gradients of parameters that are frozen, replaced, swapped or consumed meanwhile."""

from __future__ import annotations

import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import capture


def test_parameters_that_are_frozen_for_a_while_have_their_gradients(tmp_path):
    gan = nn.ModuleDict({"judge": nn.Linear(2, 1), "maker": nn.Linear(2, 2)})
    with capture(tmp_path, model=gan) as recording:
        for step in range(3):
            if step:
                recording.step()
            gan["judge"].requires_grad_(True)
            gan["judge"](torch.ones(1, 2)).sum().backward()
            gan["judge"].requires_grad_(False)
            gan["judge"](gan["maker"](torch.ones(1, 2))).sum().backward()

    run = open_run(tmp_path)
    for step in range(3):
        assert set(run.part(step=step).records["Module.judge.Linear.parameters_grad.0"].gradients) == {"weight", "bias"}


def test_a_parameter_that_is_replaced_has_its_gradient(tmp_path):
    model = nn.Linear(2, 2)
    with capture(tmp_path, model=model):
        model.weight = nn.Parameter(torch.ones(2, 2))
        model(torch.ones(1, 2)).sum().backward()

    gradients = open_run(tmp_path).part().records["Module.Linear.parameters_grad.0"].gradients
    assert set(gradients) == {"weight", "bias"}


def test_an_optimizer_inside_of_backward_leaves_the_gradient_to_be_recorded(tmp_path):
    model = nn.Linear(2, 2)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda leaf: setattr(leaf, "grad", None))
    with capture(tmp_path, model=model):
        model(torch.ones(1, 2)).sum().backward()

    gradients = open_run(tmp_path).part().records["Module.Linear.parameters_grad.0"].gradients
    assert gradients["weight"].statistics.max == 1 and gradients["bias"].statistics.max == 1


def test_parameters_that_take_turns_are_hooked_once(tmp_path):
    model, fast, x = nn.Linear(2, 2, bias=False), nn.Parameter(torch.randn(2, 2)), torch.ones(1, 2)
    with capture(tmp_path, model=model, level="L0") as recording:
        for _ in range(3):
            model(x).sum().backward()
            torch.func.functional_call(model, {"weight": fast}, (x,)).sum().backward()
            model(x).sum().backward()
            recording.step()

    for step in range(3):
        names = open_run(tmp_path).part(step=step).records
        assert sum("parameters_grad" in name for name in names) == 3
    assert not model.weight._post_accumulate_grad_hooks and not fast._post_accumulate_grad_hooks
