"""Optimizers: what they write is seen, and what comes after them is not inside them."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from tests.support.models import WITHOUT_THE_FLAT_TENSOR, WritesBetween, flat_parameters
from tests.support.runs import values, weights_of_linear
from torchparity import open_run
from torchparity.recording import capture


def test_an_optimizer_of_somebodys_own_may_write_below_the_versions(tmp_path):
    parameter = nn.Parameter(torch.ones(5))
    address = parameter.data_ptr()

    class Fused(torch.optim.Optimizer):
        def step(self, closure=None):
            ctypes.memmove(address, (ctypes.c_float * 5)(*[9.0] * 5), 20)

    optimizer = Fused([parameter], {})
    with capture(tmp_path):
        parameter.exp()
        optimizer.step()
        parameter.exp()

    records = open_run(tmp_path).part().records
    assert records["Tensor.exp.0.forward"].input_args[0].statistics.max == 1.0
    assert records["Tensor.exp.1.forward"].input_args[0].statistics.max == 9.0


def test_at_level_l0_a_step_of_an_optimizer_that_calls_the_model_is_seen(tmp_path):
    model = WritesBetween()
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([weight], max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = model(weight * 1.0).sum()
        loss.backward()
        return loss

    with capture(tmp_path, model=model, level="L0", task="tensor"):
        optimizer.step(closure)
        assert torch._C._len_torch_function_stack() == 1
        model(torch.ones(3))

    assert torch._C._len_torch_function_stack() == 0
    for call in (0, 1):
        returned = values(tmp_path, f"Module.first.Identity.forward.{call}", "output")
        received = values(tmp_path, f"Module.second.Identity.forward.{call}")
        assert received == [3 * number for number in returned]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_an_optimizer_that_raises_leaves_nothing_behind(tmp_path, level):
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("no")

    model = WritesBetween()
    optimizer = Broken([nn.Parameter(torch.ones(1))], lr=0.1)
    with capture(tmp_path, model=model, level=level):
        with pytest.raises(RuntimeError, match="no"):
            optimizer.step()
        model(torch.ones(3))

    assert torch._C._len_torch_function_stack() == 0
    records = open_run(tmp_path).part().records
    assert records["Module.second.Identity.forward.0"].input_args[0].statistics.max == 6


def test_at_level_l0_what_an_optimizers_closure_writes_is_seen(tmp_path):
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

    def closure():
        hidden = first(torch.ones(2, 3))
        hidden.data.add_(100)
        loss = second(hidden).sum()
        loss.backward()
        return loss

    with capture(tmp_path, model=[first, second], level="L0"), ThreadPoolExecutor(1) as pool:
        optimizer.step(closure)
        pool.submit(optimizer.step).result()
        depth = pool.submit(torch._C._len_torch_function_stack).result()

    records = open_run(tmp_path).part().records
    assert records["Module.1.Linear.forward.0"].input_args[0].statistics.max > 90
    assert depth == 0


@pytest.mark.parametrize("settings", WITHOUT_THE_FLAT_TENSOR, ids=str)
@pytest.mark.parametrize("foreach", [True, False])
def test_an_optimizer_of_a_flat_twin_is_seen_to_write_the_weights(tmp_path, settings, foreach):
    model, flat = flat_parameters()
    optimizer = torch.optim.SGD([flat], lr=1.0, foreach=foreach)
    with capture(tmp_path, model=model, **settings):
        for _ in range(2):
            model(torch.ones(1, 2))
            flat.grad = -torch.ones(6)
            optimizer.step()

    assert [weight.statistics.max for weight in weights_of_linear(tmp_path, settings["level"])] == [0, 1]


def test_what_comes_after_an_optimizer_that_raises_is_not_inside_it(tmp_path):
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def refuse(*_):
        raise ValueError("no")

    with capture(tmp_path):
        weight.grad = torch.ones(2)
        handle = optimizer.register_step_pre_hook(refuse)
        with pytest.raises(ValueError, match="no"):
            optimizer.step()
        torch.ones(1).exp()
        handle.remove()
        optimizer.step()
        torch.ones(1).sin()

    construct = open_run(tmp_path).part().construct
    assert construct["Tensor.exp.0.forward"] is None and construct["Tensor.sin.0.forward"] is None
    assert "optimizer" in construct.values()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_weights_after_a_fused_optimizer_are_seen(tmp_path, kind, level):
    model = nn.Linear(4, 2, bias=False)
    optimizer = kind(model.parameters(), lr=0.1, fused=True)
    true = []
    with capture(tmp_path, model=model, level=level):
        for _ in range(3):
            true.append(model.weight.max().item())
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    assert [weight.statistics.max for weight in weights_of_linear(tmp_path, level)] == true


class Lookahead(torch.optim.Optimizer):
    def __init__(self, base):
        self.base = base
        super().__init__(base.param_groups, {})

    @torch.no_grad()
    def step(self, closure=None):
        (parameter,) = self.base.param_groups[0]["params"]
        parameter.mul_(2)
        self.base.step()
        parameter.div_(2)


def test_an_optimizer_inside_of_another_ends_itself_alone(tmp_path):
    weight = nn.Parameter(torch.ones(2))
    optimizer = Lookahead(torch.optim.SGD([weight], lr=0.1))
    weight.grad = torch.ones(2)
    with capture(tmp_path):
        optimizer.step()
        torch.ones(1).exp()

    construct = open_run(tmp_path).part().construct
    assert construct["Tensor.mul_.0.forward"] == construct["Tensor.div_.0.forward"] == "optimizer"
    assert construct["Tensor.exp.0.forward"] is None


@pytest.mark.parametrize("foreach", [True, False])
def test_the_counters_that_an_optimizer_reads_are_no_records(tmp_path, foreach):
    weights = [nn.Parameter(torch.ones(2)) for _ in range(3)]
    optimizer = torch.optim.Adam(weights, lr=0.1, foreach=foreach)
    with capture(tmp_path):
        loss = sum(weight.sum() for weight in weights)
        loss.item()
        loss.backward()
        optimizer.step()
        loss.item()

    names = open_run(tmp_path).part().records
    read = [name for name in names if name.startswith("Tensor.item.")]
    numbers = [int(name.split(".")[2]) for name in read]
    assert numbers[0] == 0 and len(numbers) == 2
    assert numbers[1] > len(weights)  # calls keep their numbers, whether or not they are recorded


class Scaled(torch.optim.SGD):
    """Divides each gradient by its norm, which it reads out of a tensor."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.div_(parameter.grad.norm().item())
        return super().step(closure)


@pytest.mark.parametrize(
    ("make", "read"),
    [
        pytest.param(lambda weights: Scaled(weights, lr=0.1), 1, id="a user's own"),
        pytest.param(lambda weights: torch.optim.Adafactor(weights, foreach=False), 3, id="Adafactor"),
    ],
)
def test_other_numbers_that_an_optimizer_reads_are_records(tmp_path, make, read):
    weight = nn.Parameter(torch.ones(2))
    optimizer = make([weight])
    weight.grad = torch.ones(2)
    with capture(tmp_path):
        optimizer.step()

    names = open_run(tmp_path).part().records
    assert sum(name.startswith("Tensor.item.") for name in names) == read


def test_what_is_read_after_an_optimizer_that_raises_is_recorded(tmp_path):
    optimizer = torch.optim.SGD([weight := nn.Parameter(torch.ones(2))], lr=0.1)
    with capture(tmp_path):
        weight.grad = torch.ones(2)
        with pytest.raises(ZeroDivisionError):
            optimizer.step(lambda: 1 / 0)
        weight.sum().item()

    assert "Tensor.item.0.forward" in open_run(tmp_path).part().records


def test_what_a_closure_reads_inside_an_optimizer_is_recorded(tmp_path):
    optimizer = torch.optim.LBFGS([weight := nn.Parameter(torch.ones(2))], max_iter=1)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    with capture(tmp_path):
        optimizer.step(closure)

    assert losses
    assert [name for name in open_run(tmp_path).part().records if name.startswith("Tensor.item.")] == [
        f"Tensor.item.{number}.forward" for number in range(len(losses))
    ]
