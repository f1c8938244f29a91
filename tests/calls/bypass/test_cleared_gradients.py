"""Gradients that are set to None are no work of torch: our mode is off meanwhile, and everything else is recorded."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchparity import open_run
from torchparity.calls.guard.mode_stack import modes_of
from torchparity.calls.intercept.apis import ApiMode
from torchparity.recording import capture


class Looking(nn.Module):
    """Notes how many of our modes are on whenever its parameters are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.modes: list[int] = []

    def parameters(self, recurse=True):
        self.modes.append(len(modes_of(ApiMode)))
        return super().parameters(recurse)


class LookedAt(dict):
    """A group of parameters that notes the same when an optimizer asks for them."""

    modes: list[int]

    def __getitem__(self, key):
        if key == "params":
            self.modes.append(len(modes_of(ApiMode)))
        return super().__getitem__(key)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Looking()


@pytest.fixture
def optimizer(model):
    optimizer = torch.optim.SGD(model.layer.parameters(), lr=0.1)
    optimizer.param_groups = [LookedAt(group) for group in optimizer.param_groups]
    optimizer.param_groups[0].modes = []
    return optimizer


def names(folder):
    return list(open_run(folder).part().records)


def test_our_mode_is_off_while_an_optimizer_sets_gradients_to_none_and_on_again_afterwards(tmp_path, model, optimizer):
    with capture(tmp_path, model=model):
        model.layer(torch.ones(1, 2)).sum().backward()
        optimizer.zero_grad()
        torch.ones(2).exp()

    assert optimizer.param_groups[0].modes == [0]
    assert all(parameter.grad is None for parameter in model.layer.parameters())
    assert "Tensor.exp.0.forward" in names(tmp_path)


def test_our_mode_is_off_while_a_module_sets_gradients_to_none(tmp_path, model):
    with capture(tmp_path, model=model):
        model.layer(torch.ones(1, 2)).sum().backward()
        model.modes.clear()
        model.zero_grad(set_to_none=True)
        torch.ones(2).exp()

    assert model.modes == [0]
    assert "Tensor.exp.0.forward" in names(tmp_path)


@pytest.mark.parametrize("by_keyword", [True, False])
def test_gradients_that_are_filled_with_zeros_are_recorded(tmp_path, model, optimizer, by_keyword):
    with capture(tmp_path, model=model):
        model.layer(torch.ones(1, 2)).sum().backward()
        optimizer.zero_grad(set_to_none=False) if by_keyword else optimizer.zero_grad(False)

    assert optimizer.param_groups[0].modes == [1]
    assert all(not parameter.grad.any() for parameter in model.layer.parameters())
    assert any("zero_" in name for name in names(tmp_path))


def test_our_mode_is_on_again_where_clearing_raised(tmp_path, model, optimizer):
    with capture(tmp_path, model=model):
        optimizer.param_groups.append(None)
        with pytest.raises(TypeError):
            optimizer.zero_grad()
        torch.ones(2).exp()

    assert "Tensor.exp.0.forward" in names(tmp_path)


def test_two_recordings_at_once_are_both_off_and_nothing_is_left_of_them(tmp_path, model, optimizer):
    functions = torch.optim.Optimizer.zero_grad, nn.Module.zero_grad
    with capture(tmp_path / "a", model=model), capture(tmp_path / "b", level="L1"):
        assert torch.optim.Optimizer.zero_grad is not functions[0]
        optimizer.zero_grad()
        torch.ones(2).exp()

    assert optimizer.param_groups[0].modes == [0]
    assert (torch.optim.Optimizer.zero_grad, nn.Module.zero_grad) == functions
    assert all("Tensor.exp.0.forward" in names(tmp_path / run) for run in "ab")


@pytest.mark.parametrize("clears", ["optimizer", "module"])
def test_a_compiled_function_that_clears_gradients_gives_what_it_gives_alone(tmp_path, clears):
    def trained(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        clearing = optimizer if clears == "optimizer" else model

        def forward(x):
            clearing.zero_grad()
            return model(x).sum()

        compiled = torch.compile(forward, backend="eager")
        for _ in range(2):
            compiled(torch.ones(1, 2)).backward()
            optimizer.step()
        return model.weight

    torch.manual_seed(0)
    alone = trained(nn.Linear(2, 2))
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    with capture(tmp_path, model=model):
        recorded = trained(model)

    assert torch.equal(alone, recorded)


def test_the_wrapper_takes_its_arguments_by_name_as_torch_does(tmp_path, model, optimizer):
    with capture(tmp_path, model=model):
        torch.optim.Optimizer.zero_grad(self=optimizer, set_to_none=True)
        nn.Module.zero_grad(self=model)

    assert optimizer.param_groups[0].modes == [0]


def test_a_recording_may_end_while_gradients_are_cleared(tmp_path, model):
    recording = capture(tmp_path, model=model)
    recording.__enter__()
    model.parameters = lambda: iter([recording.__exit__(None, None, None)] * 0)
    model.zero_grad()

    assert not modes_of(ApiMode)
