"""A call that chooses otherwise among close values moves what follows, and is no fault."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.planting import planted

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])


class Router(nn.Module):
    """Sends every row to the better of two experts, whose scores differ by the row's first element."""

    def __init__(self, share):
        super().__init__()
        self.share = share
        self.score = nn.Linear(16, 2, bias=False)
        row = torch.randn(16)
        self.experts = nn.Parameter(torch.stack([row, -row]))
        with torch.no_grad():
            self.score.weight[1] = self.score.weight[0]
            self.score.weight[1, 0] += 1.0

    def forward(self, x):
        _, chosen = self.score(x).topk(1)
        return x + self.share * x[:, 1:2] * self.experts[chosen.squeeze(-1)]


class Routers(nn.Module):
    """Routers side by side, each with a share of its own."""

    def __init__(self, *shares):
        super().__init__()
        self.routers = nn.ModuleList(map(Router, shares))

    def forward(self, x):
        return [router(x) for router in self.routers]


def program(dtype, *shares, trains=True):
    def make():
        model, x = Routers(*shares).to(dtype), torch.randn(64, 16)
        x[:, 0] = torch.where(x[:, 0] < 0, -1.0, 1.0)
        x[:3, 0] = 1e-4  # closer together than bfloat16 can tell
        x[:3, 1] = 8.0
        x = x.to(dtype)
        return model, lambda: [y.mean().backward() for y in model(x) if trains]

    return make


@TASKS
def test_another_choice_that_heals_is_within_what_the_dtypes_explain(verdict, task):
    found = verdict(program(torch.bfloat16, 1e-3), program(torch.float32, 1e-3), task=task)

    assert found.kind == "dtype" and "all within what that explains" in found.sentence, found.sentence
    assert any("Tensor.topk.0.forward chose otherwise among equal or close values" in line for line in found.remarks)
    assert "Tensor.__getitem__.1" not in found.agreement.item, "what is in another order says nothing about rounding"


@TASKS
def test_another_choice_that_does_not_heal_is_named_beside_what_differs(verdict, task):
    found = verdict(program(torch.bfloat16, 10.0), program(torch.float32, 10.0), task=task)

    assert found.kind == "cannot tell", found.sentence
    assert "Tensor.topk.0.forward, which chose otherwise among equal or close values" in found.sentence


@TASKS
@pytest.mark.parametrize("shares", [(10.0, 1e-3), (1e-3, 10.0)])
def test_another_choice_that_heals_does_not_hide_one_in_another_branch(verdict, task, shares):
    programs = [program(dtype, *shares, trains=False) for dtype in (torch.bfloat16, torch.float32)]

    found = verdict(*programs, task=task)

    assert found.kind == "cannot tell", found.sentence
    assert f"Module.routers.{shares.index(10.0)}" in found.sentence, found.sentence


class Chooser(nn.Module):
    """A linear layer, and a choice among its outputs."""

    def __init__(self, choose):
        super().__init__()
        self.linear, self.choose = nn.Linear(32, 64), choose

    def forward(self, x):
        return self.choose(self.linear(x))


def shifted(func, args, kwargs):
    """Return other indices than a call does."""
    output = func(*args, **kwargs)
    if isinstance(output, torch.Tensor):
        return (output + 1) % 8
    return type(output)((output[0], (output[1] + 1) % 8))


def choosing(choose, dtype, wrong=None):
    def make():
        model, x = Chooser(choose).to(dtype), torch.randn(8, 8, 32).to(dtype)

        def step():
            with planted(wrong, shifted if wrong else None):
                model(x)

        return model, step

    return make


CHOICES = pytest.mark.parametrize(
    ("choose", "call"),
    [
        (lambda y: y.argmax(-1), "Tensor.argmax.0.forward"),
        (lambda y: y.argmax(), "Tensor.argmax.0.forward"),
        (lambda y: torch.argmin(y, 1, keepdim=True), "Torch.argmin.0.forward"),
        (lambda y: y.topk(4, dim=1)[1], "Tensor.topk.0.forward"),
        (lambda y: torch.sort(y, dim=0, descending=True).indices, "Torch.sort.0.forward"),
        (lambda y: y.argsort(1), "Tensor.argsort.0.forward"),
        (lambda y: y.max(0).indices, "Tensor.max.0.forward"),
        (lambda y: y.median(-1).indices, "Tensor.median.0.forward"),
    ],
    ids=["argmax", "argmax of all", "argmin", "topk", "sort", "argsort", "max", "median"],
)


@CHOICES
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_indices_that_nothing_explains_are_named(verdict, choose, call, dtype):
    found = verdict(choosing(choose, dtype, call), choosing(choose, torch.float32), task="tensor")

    assert found.kind == "operator" and found.first.record == call, found.sentence


@CHOICES
def test_indices_of_values_that_rounding_has_moved_are_no_fault(verdict, choose, call):
    found = verdict(choosing(choose, torch.bfloat16), choosing(choose, torch.float32), task="tensor")

    assert found.kind == "dtype", found.sentence
