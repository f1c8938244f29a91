"""A wrong gradient is blamed on the call that made it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchparity import compare, open_run
from torchparity.recording import capture


class Block(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.first, self.wrong, self.last = nn.Linear(4, 4), Scaled(scale), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.wrong(self.first(x)))


class Scaled(nn.Module):
    """Whose gradient is off by a factor."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return Scaling.apply(x, self.scale)


class Scaling(torch.autograd.Function):
    @staticmethod
    def forward(context, x, scale):
        context.scale = scale
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2 * context.scale, None


@pytest.mark.parametrize(
    ("level", "blamed"),
    [("L0", "Module.0.wrong.Scaled.backward.0"), ("mix", "Tensor.mul.2.forward")],  # the call inside of its backward
)
def test_a_wrong_gradient_is_blamed_on_what_made_it(tmp_path, level, blamed):
    def record(name, scale):
        torch.manual_seed(0)
        model = nn.Sequential(Block(scale), nn.Linear(4, 4))
        with capture(tmp_path / name, model=model, level=level):
            model(torch.randn(3, 4, requires_grad=True)).square().sum().backward()
        return tmp_path / name

    found = compare(record("wrong", 1.01), record("right", 1.0)).first_divergence

    assert found.record == blamed
    order = list(open_run(tmp_path / "right").part().records)
    assert order.index("Module.0.wrong.Scaled.backward.0") < order.index("Module.0.Block.backward.0")
