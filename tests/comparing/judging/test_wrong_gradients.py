"""A wrong gradient is blamed on the call that made it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.squared_step import squared_step
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


class Product(torch.autograd.Function):
    """A linear layer whose gradients are off by factors: that of the input and that of the weight."""

    @staticmethod
    def forward(context, x, weight, *factors):
        context.save_for_backward(x, weight)
        context.factors = factors
        return x @ weight.t()

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        right = gradient @ weight, gradient.t() @ x
        return *(g if f == 1 else g * f for g, f in zip(right, context.factors, strict=True)), None, None


class UnseenProduct(Product):
    """The same by NumPy, which torch does not see."""

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        right = gradient @ weight, gradient.t() @ x
        return *(
            torch.from_numpy(g.numpy() * f) for g, f in zip(right, context.factors, strict=True)
        ), None, None  # fmt: skip


def training_of(function, *factors):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
            self.weight = nn.Parameter(torch.randn(8, 8))

        def forward(self, x):
            return self.last(function.apply(self.first(x), self.weight, *factors))

    def make():
        model, x = Model(), torch.randn(4, 8)
        return model, squared_step(model, x, torch.optim.SGD(model.parameters(), lr=0.1))

    return make


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("factor", [1.01, 2.0])
@pytest.mark.parametrize(
    ("function", "place", "kind", "named"),
    [
        (Product, 0, "another call", "Tensor.mul.0.forward"),
        (Product, 1, "another call", "Tensor.mul.0.forward"),
        (UnseenProduct, 0, "unrecorded step", "Functional.linear.0.backward"),
        (UnseenProduct, 1, "unrecorded step", "Module.Model.parameters_grad.0: weight"),
    ],
)
def test_a_wrong_backward_of_a_function_is_seen_before_the_optimizer(
    verdict, task, factor, function, place, kind, named
):
    factors = [1.0, 1.0]
    factors[place] = factor

    found = verdict(training_of(function, *factors), training_of(function, 1.0, 1.0), task=task)

    assert found.kind == kind and named in found.sentence and found.first.module != "optimizer", found.sentence
