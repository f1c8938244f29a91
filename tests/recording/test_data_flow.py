"""Data flow in a recording: which record, parameter or outside data each tensor of a run came from."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn


def test_a_chain_of_calls_names_who_made_each_input(recorded):
    x = torch.randn(3, 4)

    flow = recorded(lambda: torch.exp(torch.sin(x) + 1))

    assert flow.of("Torch.sin.0.forward", "input.0") == ["outside"]
    assert flow.of("Torch.sin.0.forward", "output.0") == ["Torch.sin.0.forward"]
    assert flow.of("Tensor.add.0.forward", "input.0") == ["Torch.sin.0.forward"]
    assert flow.of("Torch.exp.0.forward", "input.0") == ["Tensor.add.0.forward"]


@pytest.mark.parametrize(
    "show",
    [
        lambda y: y.view(12),
        lambda y: y[1:],
        lambda y: y.t(),
        lambda y: y.detach(),
        lambda y: y.expand(2, 3, 4),
        lambda y: y.t().reshape(12),
        lambda y: y.t().contiguous(),
        lambda y: y.t().flatten(),
        lambda y: y[None].squeeze(0),
        lambda y: y.to(torch.float32),
    ],
)
def test_a_view_or_an_unrecorded_copy_comes_from_whoever_made_its_values(recorded, show):
    x = torch.randn(3, 4)

    flow = recorded(lambda: torch.exp(show(torch.sin(x))))

    origins = flow.of("Torch.exp.0.forward", "input.0")
    assert origins == ["Torch.sin.0.forward"] or origins == ["Tensor.__getitem__.0.forward"]


def test_what_a_call_hands_on_is_not_its_own(recorded):
    x = torch.randn(3)

    flow = recorded(lambda: F.dropout(torch.sin(x), training=False).to(torch.float32).exp())

    assert flow.of("Functional.dropout.0.forward", "output.0") == ["Torch.sin.0.forward"]
    assert flow.of("Tensor.to.0.forward", "output.0") == ["Torch.sin.0.forward"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.sin.0.forward"]


def test_a_call_that_writes_in_place_made_what_is_there(recorded):
    x = torch.randn(3)

    def program():
        y = torch.sin(x)
        y.add_(1)
        F.relu(y, inplace=True)
        return y.exp()

    flow = recorded(program)

    assert flow.of("Tensor.add_.0.forward", "input.0") == ["Torch.sin.0.forward"]
    assert flow.of("Functional.relu.0.forward", "input.0") == ["Tensor.add_.0.forward"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Functional.relu.0.forward"]


@pytest.mark.parametrize(
    ("write", "record"),
    [
        (lambda y, v: y.__setitem__(1, v), "Tensor.__setitem__.0.forward"),
        (lambda y, v: y[1].add_(v), "Tensor.add_.0.forward"),
        (lambda y, v: y[1].copy_(v), "Tensor.copy_.0.forward"),
        (lambda y, v: torch.cos(v, out=y[1]), "Torch.cos.0.forward"),
    ],
)
def test_a_part_that_is_written_leaves_several_producers(recorded, write, record):
    x, v = torch.randn(3, 4), torch.randn(4)

    def program():
        y = torch.sin(x)
        write(y, v)
        return y.exp()

    flow = recorded(program)

    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.sin.0.forward", record]


def test_out_is_made_by_the_call(recorded):
    x, y = torch.randn(3), torch.zeros(3)

    flow = recorded(lambda: torch.sin(x, out=y).exp())

    assert flow.of("Torch.sin.0.forward", "input.out") == ["outside"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.sin.0.forward"]


def test_of_many_writes_to_parts_the_newest_are_told(recorded):
    def program():
        y = torch.empty(20)
        for index in range(20):
            y[index] = index
        return y.exp()

    origins = recorded(program).of("Tensor.exp.0.forward", "input.0")

    assert origins == ["uninitialised", *(f"Tensor.__setitem__.{index}.forward" for index in range(13, 20))]


@pytest.mark.parametrize(
    "make",
    [
        lambda y: torch.empty(6, 4),
        torch.empty_like,
        lambda y: y.new_empty(6, 4),
        lambda y: torch.empty_strided((6, 4), (4, 1)),
        lambda y: y.new_empty_strided((6, 4), (4, 1)),
    ],
)
def test_memory_is_uninitialised_until_it_is_written(recorded, make):
    x = torch.randn(6, 4)

    def program():
        y = torch.sin(x)
        buffer = make(y)
        buffer.index_put_((torch.arange(6),), y)
        buffer.exp()
        buffer.copy_(y)
        return buffer.cos()

    flow = recorded(program)

    made = next(name for name in flow.parts[0].records if "empty" in name)
    assert flow.of(made, "output.0") == ["uninitialised"]
    assert flow.of("Tensor.index_put_.0.forward", "input.0") == ["uninitialised"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["uninitialised", "Tensor.index_put_.0.forward"]
    assert flow.of("Tensor.cos.0.forward", "input.0") == ["Tensor.copy_.0.forward"]


def test_a_tensor_that_grows_is_uninitialised_in_part(recorded):
    x = torch.randn(3)

    flow = recorded(lambda: torch.sin(x).resize_(30).exp())

    assert "uninitialised" in flow.of("Tensor.exp.0.forward", "input.0")


def test_zeros_are_made_by_their_call(recorded):
    flow = recorded(lambda: torch.zeros(3).exp())

    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.zeros.0.forward"]


def test_parameters_and_buffers_have_the_model_s_names(recorded):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    x = torch.randn(5, 4)

    flow = recorded(lambda: model(x), model=model)

    assert flow.of("Functional.linear.0.forward", "input.1") == ["parameter 0.weight"]
    assert flow.of("Functional.batch_norm.0.forward", "input.2") == ["buffer 1.running_var"]
    assert flow.of("Functional.batch_norm.0.forward", "input.bias") == ["parameter 1.bias"]


def test_a_parameter_without_a_model_has_no_name(recorded):
    weight = nn.Parameter(torch.randn(3))
    x = torch.randn(3, requires_grad=True)

    flow = recorded(lambda: torch.mul(weight, x))

    assert flow.of("Torch.mul.0.forward", "input.0") == ["parameter"]
    assert flow.of("Torch.mul.0.forward", "input.1") == ["outside"]


def test_tied_weights_have_their_first_name(recorded):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight

    flow = recorded(lambda: model(torch.ones(2, 4)), model=model)

    assert flow.of("Functional.linear.1.forward", "input.1") == ["parameter 0.weight"]


def test_batch_norm_writes_its_buffers(recorded):
    model = nn.BatchNorm1d(4)
    x = torch.randn(5, 4)

    def program():
        model(x)
        model.eval()(x)
        model(x)
        model.train()

    flow = recorded(program, model=model)

    written = ["buffer running_mean", "Functional.batch_norm.0.forward"]
    assert flow.of("Functional.batch_norm.1.forward", "input.1") == written
    assert flow.of("Functional.batch_norm.2.forward", "input.1") == written
    assert flow.of("Functional.batch_norm.1.forward", "input.0") == ["outside"]


@pytest.mark.parametrize("kind", ["foreach", "loop", "fused"])
def test_an_optimizer_wrote_the_weights_of_the_next_step(recorded, kind):
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=kind == "foreach", fused=kind == "fused")
    x = torch.randn(2, 4)

    def program():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    flow = recorded(program, model=model, steps=3)

    writer = {
        "foreach": "Torch._foreach_addcdiv_.0.forward",
        "loop": "Tensor.addcdiv_.0.forward",
        "fused": "Torch._fused_adamw_.0.forward",
    }[kind]
    assert flow.of("Functional.linear.0.forward", "input.1", step=0) == ["parameter 0.weight"]
    for step in (1, 2):
        origins = flow.of("Functional.linear.0.forward", "input.1", step=step)
        assert origins == ["parameter 0.weight", f"step{step - 1} earlier {writer}"]


def test_a_list_is_written_wholly_or_in_part(recorded):
    tensors = [torch.zeros(4) for _ in range(9)]

    def program():
        torch._foreach_add_(tensors, 1.0)
        torch._foreach_exp(tensors)
        torch._foreach_mul_([tensor[:2] for tensor in tensors], 2.0)
        torch.stack(tensors)

    flow = recorded(program)

    writers = ["Torch._foreach_add_.0.forward", "Torch._foreach_mul_.0.forward"]
    assert flow.of("Torch._foreach_exp.0.forward", "input.0.3") == writers[:1]
    assert flow.of("Torch._foreach_exp.0.forward", "output.3") == ["Torch._foreach_exp.0.forward"]
    assert flow.of("Torch.stack.0.forward", "input.0.3") == writers


def test_gradients_come_from_the_backward_that_returned_them(recorded):
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), foreach=False)
    x = torch.randn(2, 4)

    def program():
        model(x).sum().backward()
        optimizer.step()

    flow = recorded(program, model=model)

    assert flow.of("Tensor.add_.0.forward", "input.1") == ["Functional.linear.0.backward"]


def test_a_gradient_that_nobody_saw_is_never_from_outside(recorded):
    x = torch.randn(2, 4)
    weight = torch.randn(4, requires_grad=True)

    def program():
        for _ in range(2):
            (torch.sin(x) * weight).sum().backward()
        torch.exp(weight.grad)

    flow = recorded(program, list=["exp"])

    assert flow.of("Torch.exp.0.forward", "input.0") == ["unknown"]


def test_a_cache_of_keys_grows_over_steps(recorded):
    cache, tokens = torch.zeros(3, 4), iter(range(3))

    def program():
        cache[next(tokens)] = torch.randn(4)
        torch.exp(cache)

    flow = recorded(program, steps=3)

    assert flow.of("Torch.exp.0.forward", "input.0", step=2) == [
        "outside",
        "step0 earlier Tensor.__setitem__.0.forward",
        "step1 earlier Tensor.__setitem__.0.forward",
        "Tensor.__setitem__.0.forward",
    ]
