"""A call of one run alone that copies, casts, or adds or multiplies a number: it passes on what is off and no more."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchparity


class Net(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 8)
        self.change = change

    def forward(self, x):
        return self.last(self.change(nn.functional.gelu(self.norm(self.first(x.to(self.first.weight.dtype))))))


CHANGES = {
    "times 1.05": lambda h: h * 1.05,
    "over 1.06": lambda h: h / 1.06,
    "times 0.95, in place": lambda h: h.clone().mul_(0.95),
    "plus 0.04": lambda h: h + 0.04,
    "a chain": lambda h: (h.clone() * 2.1).contiguous() / 2,
}
COPIES = {
    "times 1": lambda h: h * 1.0,
    "there and back": lambda h: (h * 3.0) / 3.0,
    "cast": lambda h: h.float().to(h.dtype),
    "cast to fewer bits": lambda h: h.bfloat16().to(h.dtype),
    "copied": lambda h: h.clone().t().contiguous().t(),
    "moved and put back": lambda h: (h + 1.0) - 1.0,
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function that records the program once with each change: in bfloat16, without a change in float32."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run(task, change=None):
        if (task, change) not in made:
            torch.manual_seed(0)
            model = Net(change or (lambda h: h)).to(torch.bfloat16 if change else torch.float32)
            made[task, change] = folder / str(len(made))
            with torchparity.capture(made[task, change], model=model, task=task, level="mix"):
                model(torch.randn(12, 16)).float().square().mean().backward()
        return made[task, change]

    return run


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_factor_near_one_shows_through_another_dtype(recorded, task, name):
    runs = [recorded(task, CHANGES[name]), recorded(task)]

    found, swapped = (torchparity.compare(*order).verdict for order in (runs, runs[::-1]))

    assert found.kind == "another call" and found.first.partner == found.first.record, found.sentence
    assert swapped.kind == "another call" and swapped.first.partner == found.first.record, swapped.sentence


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_what_the_dtypes_explain(recorded, task, name):
    runs = [recorded(task, COPIES[name]), recorded(task)]

    for order in (runs, runs[::-1]):
        found = torchparity.compare(*order).verdict
        assert found.kind == "dtype", found.sentence
