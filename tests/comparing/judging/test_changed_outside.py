"""What a program changes where no call is recorded: gradients in a module's hook, memory through NumPy."""

from __future__ import annotations

import pytest
import torch
from torch import nn

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x):
        return x + nn.functional.gelu(self.linear(self.norm(x)))


def hooked(choose=None, change=lambda gradient: gradient * 2):
    def make():
        model, x = nn.Sequential(Block(), Block(), nn.Linear(6, 3)), torch.randn(5, 6)
        if choose is not None:
            choose(model).register_full_backward_hook(lambda module, given, received: (change(given[0]),))
        return model, lambda: model(x).pow(2).mean().backward()

    return make


@TASKS
@pytest.mark.parametrize("choose", [lambda model: model[1], lambda model: model[1].linear], ids=["block", "layer"])
@pytest.mark.parametrize(
    "change",
    [lambda gradient: gradient * 2, lambda gradient: torch.from_numpy(gradient.numpy() * 2)],
    ids=["by torch", "by numpy"],
)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_hook_of_a_module_that_changes_gradients_does_not_agree(verdict, task, choose, change, is_swapped):
    programs = (hooked(choose, change), hooked())

    found = verdict(*(programs[::-1] if is_swapped else programs), task=task, level="mix")

    assert found.kind in ("another call", "unrecorded step"), found.sentence


@TASKS
def test_a_hook_of_a_module_that_changes_nothing_agrees(verdict, task):
    found = verdict(hooked(lambda model: model[1], lambda gradient: gradient * 1.0), hooked(), task=task, level="mix")

    assert found.kind == "agree", found.sentence


class Overwriting(nn.Module):
    """Two layers, and a factor that the memory between them is multiplied with where torch does not see it."""

    def __init__(self, factor):
        super().__init__()
        self.first, self.second, self.factor = nn.Linear(4, 4), nn.Linear(4, 2), factor

    def forward(self, x):
        y = torch.tanh(self.first(x))
        y.detach().numpy()[:] *= self.factor
        return self.second(y)


@TASKS
@pytest.mark.parametrize("factors", [(1.0, 0.0), (0.0, 1.0), (1.0, 1e-3)])
def test_memory_that_is_written_where_torch_does_not_see_it(verdict, task, factors):
    def program(factor):
        def make():
            model, x = Overwriting(factor), torch.randn(5, 4)
            return model, lambda: model(x)

        return make

    found = verdict(*map(program, factors), task=task)

    assert found.kind == "unrecorded step" and found.first.record == "Functional.linear.1.forward", found.sentence
    assert found.first.item == "input.0"
