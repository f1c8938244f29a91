"""What is off by more than rounding in gradients or the optimizer, and nothing explains, is never called rounding."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import torchparity
from tests.faultbed.plant import ExactKernels, sink
from torchparity.calls.guard.mode_stack import take_off
from torchparity.comparing.judging.figures import NEVER_ROUNDING

VARIANTS = pytest.mark.parametrize(("task", "foreach"), [("statistics", False), ("tensor", True)])


class Net(nn.Module):
    """A layer in front of a batch norm, so that the gradient of its bias is rounding and nothing else."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(32, 24), nn.BatchNorm1d(24), nn.Linear(24, 8)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


def multiplied(tensor, factor):
    """Multiply memory where torch does not see it."""
    tensor.detach().numpy()[...] *= factor


def of_a_hook(model, optimizer):
    def change(module, given, received):
        return (torch.from_numpy(given[0].numpy() * 3),)

    model.norm.register_full_backward_hook(change)


def of_a_gradient(model, optimizer):
    def change(*_):
        multiplied(model.last.weight.grad, 3)

    optimizer.register_step_pre_hook(change)


def of_the_state(model, optimizer):
    def change(*_):
        multiplied(optimizer.state[model.last.weight]["exp_avg_sq"], 6)

    optimizer.register_step_post_hook(change)


def of_a_buffer(model, optimizer):
    optimizer.register_step_post_hook(lambda *_: multiplied(model.norm.running_var, 4))


def training(plant=None, *, is_noisy=False, foreach):
    def make():
        model, data = Net(), torch.randn(2, 40, 32)
        batches = iter(data)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, foreach=foreach)
        if plant is not None:
            plant(model, optimizer)

        def step():
            mode = ExactKernels()
            if is_noisy:
                sink(mode)
            try:
                optimizer.zero_grad()
                model(next(batches)).square().mean().backward()
                optimizer.step()
            finally:
                if is_noisy:
                    take_off(mode)

        return model, step

    return make


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function that records a training of two steps once, and returns the path of the run."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run(task, plant=None, **settings):
        key = (task, plant and plant.__name__, *settings.items())
        if key not in made:
            torch.manual_seed(0)
            model, step = training(plant, **settings)()
            made[key] = folder / str(len(made))
            with torchparity.capture(made[key], model=model, task=task, level="mix") as recording:
                for _ in range(2):
                    step()
                    recording.step()
        return made[key]

    return run


@VARIANTS
@pytest.mark.parametrize("is_swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize(
    ("plant", "named", "maker"),
    [
        (of_a_hook, "linear.0.backward", "Functional.batch_norm.0.backward"),
        (of_a_gradient, "lerp_", "last.Linear.parameters_grad.0|Functional.linear.1.backward"),
        (of_the_state, "mul_", "step 0, .*addcmul_"),
        (of_a_buffer, "Functional.batch_norm.0.forward", "step 0, Functional.batch_norm.0.forward"),
    ],
)
def test_what_changes_where_nothing_is_recorded_is_not_called_rounding(
    recorded, task, foreach, is_swapped, plant, named, maker
):
    runs = [recorded(task, plant, foreach=foreach), recorded(task, is_noisy=True, foreach=foreach)]

    found = torchparity.compare(*(runs[::-1] if is_swapped else runs)).verdict

    assert found.kind == "cannot tell" and named in found.first.record, found.sentence
    assert re.search(f"({maker}).*, which made it, explains .* at most: cannot tell who is to blame", found.sentence)


@VARIANTS
def test_other_rounding_alone_agrees(recorded, task, foreach):
    runs = [recorded(task, foreach=foreach), recorded(task, is_noisy=True, foreach=foreach)]

    found = torchparity.compare(*runs).verdict

    assert found.kind == "agree", found.sentence
    assert found.agreement.remainder > NEVER_ROUNDING, "the gradient of a bias in front of a batch norm"


def test_an_expected_change_can_be_ignored(recorded):
    runs = [recorded("statistics", of_the_state, foreach=False), recorded("statistics", is_noisy=True, foreach=False)]

    found = torchparity.compare(*runs, ignore=["Tensor.mul_.4.forward"]).verdict

    assert found.kind == "agree" and "apart from what --ignore leaves out" in found.sentence
