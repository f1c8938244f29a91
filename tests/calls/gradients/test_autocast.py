"""Weights that autocast casts: each call has its own gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from torchparity import open_run, to_torch
from torchparity.recording import capture


def tensor(part, leaf):
    return to_torch(part.tensor(leaf))


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_a_weight_that_autocast_casts_for_several_calls_has_the_gradient_of_each(tmp_path, level):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    inputs = [torch.randn(4, 3, requires_grad=True), 100 * torch.randn(4, 3, requires_grad=True)]
    with capture(tmp_path, model=model, level=level, task="tensor"):
        with torch.autocast("cpu", torch.bfloat16):
            total = sum(model(x).sum() for x in inputs) + functional.linear(inputs[0], model.weight).sum()
        total.backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    for number, x in enumerate([*inputs, inputs[0]]):
        with torch.autocast("cpu", torch.bfloat16):
            alone = functional.linear(x, model.weight, model.bias if number < 2 else None).sum()
        expected = torch.autograd.grad(alone, [x, model.weight, *([model.bias] if number < 2 else [])])
        outputs = part.records[f"Functional.linear.{number}.backward"].output
        for ours, truth in zip(outputs, expected, strict=False):
            assert ours.dtype == str(truth.dtype)
            assert torch.equal(tensor(part, ours), truth)


def test_a_network_that_uses_a_weight_often_under_autocast_has_its_gradient(tmp_path):
    torch.manual_seed(0)
    model, x = nn.RNN(3, 4), torch.randn(5, 2, 3)
    with capture(tmp_path, level="L1", task="tensor"), torch.autocast("cpu", torch.bfloat16):
        model(x)[0].sum().backward()

    part = open_run(tmp_path).part()
    weights = part.records["VF.rnn_tanh.0.backward"].output[2]
    for ours, parameter in zip(weights, model.parameters(), strict=True):
        assert torch.equal(tensor(part, ours), parameter.grad)


class Mixed(nn.Module):
    def forward(self, weight, x):
        return functional.linear(x, weight) + functional.linear(x * 3, weight) + weight.sum()


def test_a_weight_that_is_used_cast_and_uncast_has_its_gradient(tmp_path):
    torch.manual_seed(0)
    model, weight, x = Mixed(), torch.randn(8, 8, requires_grad=True), torch.randn(64, 8)
    with capture(tmp_path, model=model, level="L0", task="tensor"), torch.autocast("cpu", torch.bfloat16):
        model(weight, x).sum().backward()

    part = open_run(tmp_path).part()
    assert torch.equal(tensor(part, part.records["Module.Mixed.backward.0"].output[0]), weight.grad)


def test_a_part_of_a_cast_weights_gradient_that_nobody_asks_for_is_none(tmp_path):
    class Two(nn.Module):
        def forward(self, weight, x):
            return functional.linear(x, weight).sum(), functional.linear(x * 3, weight).sum() + weight.sum()

    torch.manual_seed(0)
    model, weight, x = Two(), torch.randn(8, 8, requires_grad=True), torch.randn(64, 8)
    with capture(tmp_path, model=model, level="L0", task="tensor"), torch.autocast("cpu", torch.bfloat16):
        model(weight, x)[1].backward()

    part = open_run(tmp_path).part()
    assert torch.equal(tensor(part, part.records["Module.Two.backward.0"].output[0]), weight.grad)


@pytest.mark.filterwarnings("error")
def test_a_module_that_casts_inside_of_an_autocast_of_its_own_has_its_gradients(tmp_path):
    class Own(nn.Module):
        def forward(self, weight, x):
            with torch.autocast("cpu", torch.bfloat16):
                return functional.linear(x, weight).float().sum() + weight.to(torch.complex64).abs().sum()

    torch.manual_seed(0)
    model, weight, x = Own(), torch.randn(8, 8, requires_grad=True), torch.randn(64, 8)
    with capture(tmp_path, model=model, level="L0", task="tensor"), torch.autocast("cpu", enabled=False):
        (model(weight, x) + 2 * model(weight, x)).backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    first, second = (tensor(part, part.records[f"Module.Own.backward.{call}"].output[0]) for call in range(2))
    assert torch.allclose(second, 2 * first) and torch.allclose(first + second, weight.grad, rtol=1e-2)
