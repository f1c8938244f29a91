"""Inputs of both models: every form of them, copied to where the model is."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import nn

import torchparity
from torchparity.errors import ConfigError
from torchparity.in_lockstep.inputs import inputs_for

Pair = namedtuple("Pair", "left right")


class Adds(nn.Module):
    """Adds whatever it is given, and keeps it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seen = []

    def forward(self, *args, **kwargs):
        self.seen += [args, kwargs]
        total = self.weight
        waiting = [args, kwargs]
        while waiting:
            value = waiting.pop()
            if isinstance(value, torch.Tensor):
                total = total + value.sum()
            elif isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, (list, tuple)):
                waiting += value
        return {"total": total, "parts": [total * 2, None]}


X, Y = torch.arange(6.0), torch.arange(4)
FORMS = {
    "tensor": (X, 16.0),
    "tuple": ((X, Y), 22.0),
    "list": ([X, Y], 22.0),
    "dict": ({"x": X, "y": Y}, 22.0),
    "nested": (([X, {"y": (Y, X)}], Pair(X, Y)), 58.0),
    "named tuple": (Pair(X, Y), 22.0),
    "function": (lambda device: (X.to(device), Y.to(device)), 22.0),
}


@pytest.mark.parametrize("form", FORMS)
def test_inputs_come_in_every_form(form):
    inputs, total = FORMS[form]

    result = torchparity.lockstep(Adds(), Adds(), inputs, backward=True, task="tensor")

    assert result.verdict.agreement.is_identical
    assert result.candidate_output["total"] == total
    assert result.candidate_output["parts"][1] is None


def test_arguments_that_are_no_tensors_are_handed_on():
    model, marker = Adds(), object()

    torchparity.lockstep(model, Adds(), {"x": X, "flag": True, "marker": marker, "names": ["a"], "nothing": None})

    assert model.seen[1]["marker"] is marker
    assert model.seen[1]["flag"] is True and model.seen[1]["names"] == ["a"] and model.seen[1]["nothing"] is None


def test_a_mapping_of_another_type_is_keyword_arguments():
    model = Adds()

    torchparity.lockstep(model, Adds(), OrderedDict(x=X))

    assert model.seen[0] == () and list(model.seen[1]) == ["x"]


def test_a_tensor_that_comes_twice_is_one_for_the_model_too():
    model = Adds()

    torchparity.lockstep(model, Adds(), (X, [X]))

    assert model.seen[0][0] is model.seen[0][1][0]
    assert model.seen[0][0] is not X


def test_a_function_makes_inputs_from_the_same_random_numbers():
    torch.manual_seed(5)
    candidate, baseline = Adds(), Adds()
    state = torch.get_rng_state()

    result = torchparity.lockstep(candidate, baseline, lambda device: torch.randn(7, device=device), task="tensor")

    assert result.verdict.agreement.is_identical
    assert torch.equal(candidate.seen[0][0], baseline.seen[0][0])
    assert torch.equal(torch.get_rng_state(), state)


def test_floating_inputs_are_cast_where_that_is_asked_for():
    model = nn.Linear(6, 2).bfloat16()

    (kept, whole), _ = inputs_for(model, (X, Y), cast=False)
    (cast, whole_cast), _ = inputs_for(model, (X, Y), cast=True)

    assert kept.dtype == torch.float32 and cast.dtype == torch.bfloat16
    assert whole.dtype == whole_cast.dtype == torch.int64


def test_a_half_model_runs_beside_a_float_one():
    torch.manual_seed(0)
    baseline = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    candidate = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    candidate.load_state_dict(baseline.state_dict())
    inputs = torch.randn(3, 6)

    hint = "gave model_a, which computes in bfloat16, inputs of float32, and it failed .*; cast_inputs=True casts them"
    with pytest.raises(ConfigError, match=hint) as caught:
        torchparity.lockstep(candidate.bfloat16(), baseline, inputs)
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ConfigError, match="gave model_b, which computes in bfloat16, inputs of float32"):
        torchparity.lockstep(baseline, candidate, {"input": inputs})
    result = torchparity.lockstep(candidate, baseline, inputs, cast_inputs=True, backward=True)

    assert result.agrees and "bfloat16 against float32" in result.headline


@pytest.mark.parametrize(
    "layer", [nn.Linear(6, 2), nn.LayerNorm(6), nn.Conv1d(3, 2, 1), nn.GRU(6, 2), nn.BatchNorm1d(6)]
)
def test_layers_of_every_kind_hint_at_casting(layer):
    with pytest.raises(ConfigError, match="cast_inputs=True"):
        torchparity.lockstep(layer.half(), copy.deepcopy(layer), torch.randn(3, 6).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_failure_that_is_not_of_dtypes_passes_through(dtype):
    model = nn.Linear(6, 2).to(dtype)

    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torchparity.lockstep(model, model, torch.randn(3, 5, dtype=dtype))


def test_inputs_keep_their_strides_and_their_wish_for_a_gradient():
    given = torch.randn(3, 4).t().requires_grad_()

    (copy,), _ = inputs_for(nn.Linear(3, 2), given, cast=False)

    assert copy.stride() == given.stride() and copy.requires_grad and copy.is_leaf
    assert copy.data_ptr() != given.data_ptr()


def test_inputs_go_to_the_device_of_each_model():
    class OnMeta(nn.Module):
        def __init__(self, device):
            super().__init__()
            self.register_buffer("place", torch.zeros((), device=device))

    (copy,), _ = inputs_for(OnMeta("meta"), X, cast=False)
    (where,), _ = inputs_for(OnMeta("meta"), lambda device: device, cast=False)

    assert copy.device.type == "meta" and copy.shape == X.shape
    assert where == torch.device("meta")


def test_a_model_without_parameters_takes_the_inputs_where_they_are():
    result = torchparity.lockstep(nn.ReLU(), nn.ReLU(), torch.randn(4), task="tensor")

    assert result.verdict.agreement.is_identical
