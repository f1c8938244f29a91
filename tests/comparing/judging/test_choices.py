"""A call that chooses otherwise among close values moves what follows, and is no fault."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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


def program(dtype, share):
    def make():
        model, x = Router(share).to(dtype), torch.randn(64, 16)
        x[:4, 0] = 1e-4  # closer together than bfloat16 can tell
        x[:4, 1] = 8.0
        x = x.to(dtype)
        return model, lambda: model(x).mean().backward()

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
