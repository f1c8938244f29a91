"""Calls that only one run makes, at the very end of a forward pass: nobody receives their result."""

from __future__ import annotations

import pytest
import torch
from torch import nn

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])


def training(change=lambda loss: loss):
    def make():
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, label = torch.randn(32, 8), torch.randint(0, 4, (32,))

        def step():
            optimizer.zero_grad()
            change(nn.functional.cross_entropy(model(x), label)).backward()
            optimizer.step()

        return model, step

    return make


@TASKS
@pytest.mark.parametrize("factor", [1.001, 1.05, 4.0])
def test_a_loss_that_only_the_candidate_divides(verdict, task, factor):
    found = verdict(training(lambda loss: loss / factor), training(), steps=2, task=task)

    assert found.kind == "another call" and found.first.record == "Tensor.div.0.forward", found.sentence
    assert "only the candidate makes this call" in found.sentence


@TASKS
def test_a_loss_that_only_the_baseline_divides(verdict, task):
    found = verdict(training(), training(lambda loss: loss / 1.05), steps=2, task=task)

    assert found.kind == "another call" and "Tensor.div.0.forward, which only the baseline has" in found.sentence, (
        found.sentence
    )


class Ending(nn.Module):
    """A linear layer, and what becomes of its output."""

    def __init__(self, end):
        super().__init__()
        self.linear, self.end = nn.Linear(4, 4), end

    def forward(self, x):
        return self.end(self.linear(x))


def forward(end):
    def make():
        model, x = Ending(end), torch.randn(8, 4)
        return model, lambda: model(x)

    return make


@pytest.mark.parametrize("level", ["mix", "L0"])
@TASKS
@pytest.mark.parametrize(
    ("candidate", "baseline"),
    [
        pytest.param(lambda y: y[:4], lambda y: y, id="slice"),
        pytest.param(lambda y: y.T, lambda y: y, id="transpose"),
        pytest.param(lambda y: y.sum(), lambda y: y, id="sum"),
        pytest.param(lambda y: None, lambda y: y, id="nothing"),
        pytest.param(lambda y: y.round().long() + 1, lambda y: y.round().long(), id="integers"),
        pytest.param(lambda y: ~(y > 0), lambda y: y > 0, id="truth values"),
    ],
)
def test_a_model_that_returns_something_else_does_not_agree(verdict, task, level, candidate, baseline):
    found = verdict(forward(candidate), forward(baseline), task=task, level=level)

    assert found.kind in ("shape", "another call", "operator") and found.first is not None, found.sentence


@TASKS
def test_a_last_layer_whose_kernel_torch_does_not_see(verdict, task):
    def unseen(factor):
        return lambda y: torch.from_numpy(y.detach().numpy() * factor)

    found = verdict(forward(unseen(100.0)), forward(unseen(1.0)), task=task)

    assert not found.sentence.startswith("The runs agree"), found.sentence


@TASKS
def test_a_small_error_of_a_kernel_that_torch_does_not_see_is_told(verdict, task):
    def unseen(factor):
        return lambda y: torch.from_numpy(y.detach().numpy() * factor)

    found = verdict(forward(unseen(1.001)), forward(unseen(1.0)), task=task)

    assert found.kind == "unrecorded step" and found.first.record == "Module.Ending.forward.0", found.sentence


@TASKS
@pytest.mark.parametrize("sides", [(True, False), (False, True)])
def test_a_loss_that_one_run_adds_is_named_by_its_first_call(verdict, task, sides):
    def program(is_added):
        def make():
            model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(32, 8)

            def step():
                y = model(x)
                loss = nn.functional.mse_loss(y, torch.ones_like(y))
                (loss + 0.1 * y.exp().sum() if is_added else loss).backward()

            return model, step

        return make

    found = verdict(program(sides[0]), program(sides[1]), task=task)

    assert found.kind == "another call" and found.first.partner == "Tensor.exp.0.forward", found.sentence


def regularised(backward):
    """Return a program that hands `backward` its model, what is inside of it and its loss."""

    def make():
        model, end = nn.Sequential(nn.Linear(8, 16), nn.GELU()), nn.Linear(16, 4)
        whole = nn.Sequential(model, end)
        optimizer = torch.optim.AdamW(whole.parameters(), lr=0.01)
        x, label = torch.randn(32, 8), torch.randint(0, 4, (32,))

        def step():
            optimizer.zero_grad()
            inside = model(x)
            backward(end, inside, nn.functional.cross_entropy(end(inside), label))
            optimizer.step()

        return whole, step

    return make


def with_a_penalty(end, inside, loss):
    (loss + 0.01 * end.weight.exp().sum()).backward()


def with_a_second_backward(end, inside, loss):
    loss.backward(retain_graph=True)
    (0.01 * inside.exp().mean()).backward()


@TASKS
@pytest.mark.parametrize("level", ["mix", "L1"])
@pytest.mark.parametrize("is_candidates", [True, False])
@pytest.mark.parametrize("added", [with_a_penalty, with_a_second_backward])
def test_a_loss_that_one_run_adds_to_the_gradient_of_a_parameter_is_named(verdict, task, level, is_candidates, added):
    programs = regularised(added), regularised(lambda end, inside, loss: loss.backward())
    found = verdict(*(programs if is_candidates else programs[::-1]), steps=2, task=task, level=level)

    assert found.kind == "another call" and found.first.partner == "Tensor.exp.0.forward", found.sentence


@TASKS
def test_a_penalty_without_a_gradient_is_no_difference(verdict, task):
    def watched(end, inside, loss):
        (loss + 0.01 * end.weight.detach().exp().sum()).backward()

    found = verdict(regularised(watched), regularised(lambda end, inside, loss: loss.backward()), steps=2, task=task)

    assert found.kind == "agree", found.sentence


@TASKS
def test_calls_of_one_run_that_change_no_gradient_are_no_difference(verdict, task):
    def watched(loss):
        with torch.no_grad():
            loss.exp().item()
        return loss * 1.0

    found = verdict(training(watched), training(), steps=2, task=task)

    assert found.kind == "agree", found.sentence


@TASKS
def test_a_module_that_returns_more_in_one_run_agrees(verdict, task):
    found = verdict(forward(lambda y: (y, y.exp())), forward(lambda y: (y, None)), task=task)

    assert found.kind == "agree", found.sentence


@TASKS
@pytest.mark.parametrize("factors", [(1.01, 1.0), (1.0, 2.0)])
def test_modules_alone_show_that_the_loss_is_divided_in_one_run(verdict, task, factors):
    mine, other = (training(lambda loss, factor=factor: loss / factor) for factor in factors)

    found = verdict(mine, other, steps=2, task=task, level="L0")

    assert found.kind == "unrecorded step" and found.first.step == 0, found.sentence
    assert "backward" in found.first.record and "all recorded before it agrees" in found.sentence, found.sentence


@TASKS
@pytest.mark.parametrize("level", ["mix", "L1", "L0"])
def test_another_gradient_that_backward_is_given(verdict, task, level):
    def program(factor):
        def make():
            model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(32, 8)
            return model, lambda: model(x).backward(torch.full((32, 4), factor))

        return make

    found = verdict(program(1.01), program(1.0), task=task, level=level)

    assert found.kind in ("unrecorded step", "argument") and found.first is not None, found.sentence
