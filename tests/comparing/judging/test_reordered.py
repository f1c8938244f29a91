"""Two programs that call the same modules in another order compute the same."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.faultbed.plant import wrong_output
from tests.support.planting import planted
from tests.support.squared_step import squared_step

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])
LEVELS = pytest.mark.parametrize("level", ["L1", "mix"])


class Attention(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.order = order
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        h = self.norm(x)
        made = {name: getattr(self, name)(h) for name in self.order}
        return x + self.out(functional.scaled_dot_product_attention(made["q"], made["k"], made["v"]))


def training(order, fault=None, record="Functional.linear.0.forward"):
    def program():
        model, x = nn.Sequential(Attention(order), Attention(order)), torch.randn(2, 8, 16)
        optimizer = torch.optim.Adam(model.parameters())
        return model, squared_step(model, x, optimizer, partial(planted, record, fault))

    return program


@TASKS
@LEVELS
@pytest.mark.parametrize("order", ["kqv", "vkq", "qvk"])
def test_modules_in_another_order_agree(verdict, task, level, order):
    found = verdict(training(order), training("qkv"), task=task, level=level, steps=2)

    assert found.kind == "agree", found.sentence


@TASKS
@LEVELS
def test_a_fault_among_modules_in_another_order_is_named(verdict, task, level):
    scaled = wrong_output(lambda y: y * 1.1)

    found = verdict(training("vkq", scaled, "Functional.linear.4.forward"), training("qkv"), task=task, level=level)

    assert (found.kind, found.first.record) == ("operator", "Functional.linear.4.forward"), found.sentence
    assert found.first.module.startswith("Module.1.v.Linear")
