"""Scores that are masked with the smallest number of their dtype: statistics show the mask and hide the others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.faultbed.plant import wrong_output
from tests.support.planting import planted

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])
SIZES = {torch.float32: 5.0, torch.float16: 1.5, torch.bfloat16: 0.5}  # of the queries and the keys
DTYPES = pytest.mark.parametrize("dtype", SIZES, ids=str)
SCORES, SOFTMAX = "Torch.matmul.0.forward", "Torch.softmax.0.forward"


class Attention(nn.Module):
    """Attention with a causal mask, which is filled in or added, and read through a view."""

    def __init__(self, how, dtype):
        super().__init__()
        self.how, self.queries, self.keys = how, nn.Linear(16, 16, dtype=dtype), nn.Linear(16, 16, dtype=dtype)
        # Large scores that are nearly the same: what they are off by shows in every element of the softmax.
        size = SIZES[dtype]
        for layer in (self.queries, self.keys):
            nn.init.normal_(layer.weight, 0.0, 0.02)
            nn.init.normal_(layer.bias, size, 0.01)

    def forward(self, x):
        scores = torch.matmul(self.queries(x), self.keys(x).transpose(-1, -2))
        smallest, above = torch.finfo(x.dtype).min, torch.ones(12, 12, dtype=torch.bool).triu(1)
        if self.how == "filled":
            masked = scores.masked_fill(above, smallest)
        else:
            masked = scores + torch.zeros(12, 12, dtype=x.dtype).masked_fill(above, smallest)
        return torch.softmax(masked.unsqueeze(0), -1) @ x


def attention(how, dtype, *faults):
    def program():
        model, x = Attention(how, dtype), torch.randn(3, 12, 16, dtype=dtype)

        def step():
            first, second = [*faults, (SCORES, None), (SOFTMAX, None)][:2]
            with planted(*first), planted(*second):
                model(x).square().mean().backward()

        return model, step

    return program


def rounded_otherwise(y):
    """Return a product as another kernel rounds it: off by about a unit in the last place.

    The largest is the same, so that nothing but the sketch could show the others.
    """
    unit = torch.finfo(y.dtype).eps
    noise = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    noise[y == y.max()] = 0
    return (y.float() * (1 + 0.3 * unit * noise)).to(y.dtype)


@TASKS
@DTYPES
@pytest.mark.parametrize("how", ["filled", "added"])
def test_rounding_before_a_mask_is_no_fault_behind_it(verdict, how, dtype, task):
    other = attention(how, dtype, (SCORES, wrong_output(rounded_otherwise)))

    found = verdict(other, attention(how, dtype), task=task)

    assert found.kind == "agree", found.sentence


@TASKS
@DTYPES
@pytest.mark.parametrize("how", ["filled", "added"])
def test_a_fault_before_a_mask_is_one_fault(verdict, how, dtype, task):
    wrong = attention(how, dtype, (SCORES, wrong_output(lambda y: y * 1.1)))

    found = verdict(wrong, attention(how, dtype), task=task)

    assert (found.kind, found.first.record, found.also) == ("operator", SCORES, ()), (found.sentence, found.also)


@TASKS
@DTYPES
@pytest.mark.parametrize("how", ["filled", "added"])
def test_a_fault_behind_a_mask_of_equal_scores_is_named(verdict, how, dtype, task):
    wrong = attention(how, dtype, (SOFTMAX, wrong_output(lambda y: y * 1.1)))

    found = verdict(wrong, attention(how, dtype), task=task)

    assert (found.kind, found.first.record) == ("operator", SOFTMAX), found.sentence


@TASKS
@pytest.mark.parametrize("how", ["filled", "added"])
def test_a_fault_behind_a_mask_of_scores_that_were_rounded_otherwise_is_named(verdict, how, task):
    noise = ("Functional.linear.0.forward", wrong_output(rounded_otherwise))
    wrong = attention(how, torch.float32, noise, (SOFTMAX, wrong_output(lambda y: y * 1.001)))

    found = verdict(wrong, attention(how, torch.float32), task=task)

    assert (found.kind, found.first.record) == ("operator", SOFTMAX), found.sentence
    assert "inputs within" in found.sentence and "e-4" not in found.sentence, "relative to the mask it would be e-44"
