"""GradScaler makes gradients overflow on purpose: that is its probing, and none of our business."""

from __future__ import annotations

import pytest
import torch


class Scaled:
    """A training in fp16 under a GradScaler, whose gradients overflow at scales above `limit`."""

    def __init__(self, init_scale, *, is_enabled=True):
        self.weight = torch.full((4, 4), 0.25, dtype=torch.float16).requires_grad_()
        self.master = torch.nn.Parameter(torch.ones(4))
        self.optimizer = torch.optim.SGD([self.master], lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, enabled=is_enabled)
        self.skips = 0

    def __call__(self):
        x = torch.full((2, 4), 2.0, dtype=torch.float16)
        hidden = torch.matmul(x * self.master.half(), self.weight)
        loss = hidden.float().sum() * 20
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.skips += self.scaler.get_scale() < before
        self.optimizer.zero_grad()
        self.weight.grad = None


def test_steps_that_a_scaler_skips_are_not_reported(overflowing, capsys):
    training = Scaled(2.0**16)

    assert overflowing(training, steps=8) == {}
    assert training.skips > 2
    assert training.skips < 8
    assert "left to GradScaler" in capsys.readouterr().out


def test_a_scaler_skips_the_same_steps_when_it_is_watched(overflowing):
    watched, alone = Scaled(2.0**16), Scaled(2.0**16)

    overflowing(watched, steps=8)
    for _ in range(8):
        alone()

    assert watched.skips == alone.skips
    assert watched.scaler.get_scale() == alone.scaler.get_scale()
    assert torch.equal(watched.master, alone.master)


@pytest.mark.parametrize("scale", [2.0**16, 1.0])
def test_forward_overflows_are_reported_whatever_the_scale(overflowing, scale):
    training = Scaled(scale)
    training.weight.data.fill_(6e4)

    assert "Torch.matmul.0.forward" in overflowing(training)[0]


def test_gradients_that_overflow_without_a_scale_are_reported(overflowing):
    training = Scaled(1.0)

    def steep():
        hidden = torch.mul(training.weight, 6e4)
        training.scaler.scale((hidden.float() * 0.5e2).sum()).backward()

    assert overflowing(steep) == {0: ["Torch.mul.0.forward", "Torch.mul.0.backward"]}


def test_a_scaler_that_is_switched_off_explains_nothing(overflowing):
    training = Scaled(2.0**16, is_enabled=False)

    def steep():
        hidden = torch.mul(training.weight, 6e4)
        training.scaler.scale((hidden.float() * 0.5e2).sum()).backward()

    assert overflowing(steep) == {0: ["Torch.mul.0.forward", "Torch.mul.0.backward"]}


def test_the_next_step_without_a_scaler_is_reported(overflowing):
    training = Scaled(2.0**16)
    turns = iter(range(2))

    def program():
        if next(turns) == 0:
            training()
        else:
            torch.sqrt(torch.zeros(2, requires_grad=True)).sum().backward()

    assert overflowing(program, steps=2) == {1: ["Torch.sqrt.0.forward", "Torch.sqrt.0.backward"]}


class SteepGradient(torch.autograd.Function):
    """An identity in fp16 that computes its gradient with calls of its own."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return torch.mul(gradient, 100.0)


@pytest.mark.parametrize(("scale", "found"), [(2.0**16, {}), (1.0, {0: ["Torch.mul.0.forward"]})])
def test_what_a_function_of_the_user_computes_in_backward_is_a_gradient_too(overflowing, scale, found):
    training = Scaled(scale)

    def program():
        loss = (SteepGradient.apply(training.weight) * 1e3).float().sum()
        training.scaler.scale(loss).backward()

    assert overflowing(program) == found
