"""Calls inside of backward passes: recorded, tagged, and told from recomputation."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import capture


def test_backward_in_two_threads_leaves_torch_as_it_was(tmp_path):
    original = torch.autograd._engine_run_backward
    entered, proceed = ([threading.Event(), threading.Event()] for _ in range(2))

    def gradient(number):
        x = torch.ones(2, requires_grad=True)
        y = (x * 3).sum()

        def wait(_):
            entered[number].set()
            proceed[number].wait(5)

        y.register_hook(wait)
        return torch.autograd.grad(y, x)[0]

    class Force(nn.Module):
        def forward(self, number):
            return gradient(number)

    model = Force()
    with capture(tmp_path, model=model, level="mix"), ThreadPoolExecutor(2) as pool:
        first = pool.submit(model, 0)
        entered[0].wait(5)
        second = pool.submit(model, 1)
        entered[1].wait(5)
        proceed[0].set()
        first.result()
        proceed[1].set()

    assert first.result().tolist() == second.result().tolist() == [3, 3]
    assert torch.autograd._engine_run_backward is original


class Squaring(torch.autograd.Function):
    """Whose backward calls torch."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return torch.mul(2 * x * gradient, 1.0)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_a_backward_inside_of_a_backward_calls_is_recorded(tmp_path, use_reentrant):
    layer, x = nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True)
    with capture(tmp_path, level="L1"):
        checkpoint(lambda t: Squaring.apply(layer(t)), x, use_reentrant=use_reentrant).sum().backward()

    records = open_run(tmp_path).part().records
    assert "Torch.mul.0.forward" in records and records["Torch.mul.0.forward"].in_backward


def test_two_recordings_in_two_threads_leave_torch_as_it_was(tmp_path):
    original = torch.autograd._engine_run_backward
    barrier = threading.Barrier(2, timeout=10)

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 1

        @staticmethod
        def backward(context, gradient):
            barrier.wait()  # both are in the middle of backward
            return gradient

    def work(number):
        with capture(tmp_path / str(number), level="L1"):
            x = torch.ones(2, requires_grad=True)
            Slow.apply(x).sum().backward()
        return x.grad.tolist()

    with ThreadPoolExecutor(2) as pool:
        gradients = list(pool.map(work, range(2)))

    assert gradients == [[1, 1]] * 2
    assert torch.autograd._engine_run_backward is original


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x.square()


def test_what_a_backward_that_makes_a_graph_calls_is_no_recomputation(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path):
        (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
        first.sum().backward()

    records = open_run(tmp_path).part().records
    assert records["Tensor.square.0.forward"].in_backward and not records["Tensor.square.0.forward"].is_recompute
    assert not any("#recompute" in name for name in records)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputation_is_one_also_where_others_make_graphs(tmp_path, use_reentrant):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path):
        y = torch.utils.checkpoint.checkpoint(lambda x: torch.sin(x).cos(), x, use_reentrant=use_reentrant)
        if use_reentrant:
            y.sum().backward()
        else:
            torch.autograd.grad(y.sum(), x, create_graph=True)

    assert open_run(tmp_path).part().records["Torch.sin.0.forward#recompute"].is_recompute


def test_what_backward_calls_is_seen_however_it_is_called(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path):
        torch.autograd.backward(Cube.apply(x).sum())

    assert open_run(tmp_path).part().records["Tensor.square.0.forward"].in_backward


def test_recomputation_is_marked_and_shifts_no_number(tmp_path):
    for name in ("checkpoint", "checkpoint-reentrant"):
        training = Training(ZOO[name])
        with capture(tmp_path / name, model=training.model):
            training.step()
        records = open_run(tmp_path / name).part().records
        again = [record for record in records.values() if record.is_recompute]

        assert {"Functional.gelu.0.forward#recompute", "Functional.gelu.1.forward#recompute"} <= set(records)
        assert all("#recompute" in record.name for record in again)
        assert [name for name in records if name.startswith("Functional.gelu") and name.endswith("forward")] == [
            "Functional.gelu.0.forward",
            "Functional.gelu.1.forward",
        ]


def test_calls_in_a_custom_backward_are_tagged(tmp_path):
    training = Training(ZOO["custom-function"])
    with capture(tmp_path):
        training.step()

    tagged = [record.name for record in open_run(tmp_path).part().records.values() if record.in_backward]

    assert len(tagged) == 2 and all(name.startswith("Tensor.mul") for name in tagged)
