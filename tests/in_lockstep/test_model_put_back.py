"""What a model writes into itself while it runs is put back: parameters, buffers, attributes and own generators."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

import torchparity
from tests.support.bits import same_bits


class Writes(nn.Module):
    """Runs one of the functions below on itself before it computes."""

    def __init__(self, write):
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.frozen = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("later", None)
        self.plain, self.calls, self.write = torch.zeros(4), 0, write

    def forward(self, x):
        self.write(self, x)
        return x @ self.weight * self.scale + self.frozen + self.plain * self.calls


def write_in_place(model, x):
    with torch.no_grad():
        model.weight.mul_(0.5)
        model.frozen.add_(1)


def write_data(model, x):
    model.weight.data.mul_(0.5)
    model.weight.data[0] = 0.0
    model.plain.add_(3)


def write_the_sign_of_zero(model, x):
    model.plain.data.neg_()


def replace_data(model, x):
    model.weight.data = torch.ones(4, 4)
    model.scale = model.scale * 2
    model.frozen.data = model.frozen.data.double().repeat(2)[:4].float()


def replace_parameter(model, x):
    model.weight = nn.Parameter(torch.ones(4, 4))
    del model.frozen
    model.frozen = torch.ones(4)


def add_things(model, x):
    if not hasattr(model, "table"):
        model.register_buffer("table", torch.ones(3), persistent=False)
        model.register_buffer("mask", torch.ones(3))
        model.register_parameter("extra", nn.Parameter(torch.ones(3)))
        model.inner = nn.Linear(4, 4)
        model.later = torch.ones(3)
    model.calls += 1
    model.cache = x


def keep_a_graph(model, x):
    model.scale.add_((x @ model.weight).sum() * 0)
    model.weight.requires_grad_(False)


WRITES = [
    *(write_in_place, write_data, write_the_sign_of_zero, replace_data, replace_parameter, add_things),
    keep_a_graph,
]


def described(model):
    """Return all that there is in a model: identities, values and flags."""
    tensors = {**model._parameters, **model._buffers, "plain": model.plain}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return {
        "tensors": {name: id(tensor) for name, tensor in tensors.items()},
        "values": {name: tensor.detach().clone() for name, tensor in tensors.items()},
        "memory": {name: (tensor.data_ptr(), tensor.stride()) for name, tensor in tensors.items()},
        "graphs": {name: (tensor.requires_grad, tensor.grad_fn) for name, tensor in tensors.items()},
        "saved": list(model.state_dict()),
        "attributes": {name: value for name, value in vars(model).items() if not name.startswith("_")},
    }


def assert_as_before(model, before):
    after = described(model)
    for kind in before.keys() - {"values"}:
        assert after[kind] == before[kind], kind
    for name, values in before["values"].items():
        assert same_bits(after["values"][name], values), name


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@pytest.mark.parametrize("backward", [False, True])
def test_what_forward_writes_is_put_back(write, backward):
    model, twin = Writes(write), Writes(write)
    before = described(model)

    result = torchparity.lockstep(model, twin, torch.randn(2, 4, requires_grad=True), backward=backward, steps=3)

    assert result.agrees, result.headline
    assert_as_before(model, before)


def test_a_model_that_writes_its_parameters_agrees_with_itself():
    model = Writes(write_in_place)

    result = torchparity.lockstep(model, model, torch.randn(2, 4), steps=3, task="tensor")

    assert result.verdict.agreement.is_identical


def test_what_nobody_wrote_keeps_its_version():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        model[0].bias[0] = float("nan")  # equal to nothing, not even to itself
    versions = [tensor._version for tensor in model.state_dict(keep_vars=True).values()]

    torchparity.lockstep(model, copy.deepcopy(model), torch.randn(4, 3), backward=True)

    assert [tensor._version for tensor in model[0].parameters()] == versions[:2]


def test_a_lazy_module_is_initialised_as_by_any_call():
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())

    torchparity.lockstep(model, model, torch.randn(4, 5))

    assert type(model[0]) is nn.Linear and model[0].in_features == 5
    assert model(torch.randn(4, 5)).shape == (4, 3)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.weight.detach().add_(1)
        self.calls = self.calls + 1
        return x * self.weight * self.calls


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_a_scripted_module_is_put_back():
    model = nn.Sequential(torch.jit.script(Counts()), nn.ReLU())

    result = torchparity.lockstep(model, model, torch.ones(3), task="tensor")

    assert result.agrees and result.candidate_output.tolist() == [2.0, 2.0, 2.0]
    assert model[0].weight.tolist() == [1.0, 1.0, 1.0] and model[0].calls == 0


def test_tensors_of_every_kind_can_be_kept():
    model = nn.Linear(3, 3)
    kinds = {
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(3, device="meta"),
        "conjugate": torch.ones(3, dtype=torch.complex64).conj(),
        "complex": torch.ones(3, dtype=torch.complex128),
        "boolean": torch.tensor([True]),
        "empty": torch.empty(0, 3),
        "narrow": torch.ones(3).to(torch.float8_e4m3fn),
        "expanded": torch.ones(1).expand(5),
    }
    for name, tensor in kinds.items():
        model.register_buffer(name, tensor)

    result = torchparity.lockstep(model, model, torch.ones(3), backward=True)

    assert result.agrees
    assert all(getattr(model, name) is tensor for name, tensor in kinds.items())


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.generator = nn.Parameter(torch.ones(3)), torch.Generator().manual_seed(4)

    def forward(self, x):
        self.weight.data.zero_()
        torch.rand(2, generator=self.generator)
        raise RuntimeError("own failure")


def test_a_model_that_fails_is_put_back_too():
    model, state = Failing(), Failing().generator.get_state()

    with pytest.raises(RuntimeError, match="own failure"):
        torchparity.lockstep(model, model, torch.ones(3))

    assert model.weight.tolist() == [1.0, 1.0, 1.0]
    assert torch.equal(model.generator.get_state(), state)


class Draws(nn.Module):
    """Draws from generators of its own, one of each kind."""

    def __init__(self):
        super().__init__()
        self.torch = torch.Generator().manual_seed(1)
        self.held = [{"numpy": np.random.default_rng(2)}, (np.random.RandomState(3), random.Random(4))]

    def forward(self, x):
        old, python = self.held[1]
        numbers = [self.held[0]["numpy"].random(), old.rand(), python.random()]
        return x * torch.rand(3, generator=self.torch) + torch.tensor(numbers)


@pytest.mark.parametrize("is_one", [False, True])
def test_own_generators_are_as_they_were(is_one):
    model, fresh = Draws(), Draws()
    outputs = []
    watched = Draws() if not is_one else model
    watched.register_forward_hook(lambda module, args, output: outputs.append(output.clone()))

    result = torchparity.lockstep(model, watched, torch.ones(3), steps=2, task="tensor")

    assert result.verdict.agreement.is_identical, result.headline
    assert not torch.equal(outputs[0], outputs[-1])  # another step draws other numbers
    expected = fresh(torch.ones(3))
    assert same_bits(model(torch.ones(3)), expected) and (is_one or same_bits(watched(torch.ones(3)), expected))


def test_with_optimizers_what_the_models_write_stays():
    candidate, baseline = Writes(add_things), Writes(add_things)
    optimizers = tuple(torch.optim.SGD(model.parameters(), lr=0.1) for model in (candidate, baseline))

    torchparity.lockstep(candidate, baseline, torch.randn(2, 4), backward=True, steps=2, optimizers=optimizers)

    assert candidate.calls == baseline.calls == 2
    assert candidate.mask.tolist() == [1.0, 1.0, 1.0]
