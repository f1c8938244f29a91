"""Functions and the names of their records, both ways."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import torchparity
from torchparity.ops import draws_where_its_tensors_are, full_name, function_called, may_draw, record_name

FUNCTIONS = [
    (functional.linear, "Functional.linear"),
    (torch.Tensor.add_, "Tensor.add_"),
    (torch.matmul, "Torch.matmul"),
    (torch.linalg.inv, "Torch.linalg.inv"),
    (torch.ops.aten.relu, "Aten.relu"),
    (torch.ops.aten.add.Tensor, "Aten.add"),
]


@pytest.mark.parametrize(("function", "name"), FUNCTIONS, ids=[name for _, name in FUNCTIONS])
def test_a_function_has_a_record_name(function, name):
    assert record_name(full_name(function)) == name


@pytest.mark.parametrize("name", [name for _, name in FUNCTIONS])
def test_a_record_name_leads_back_to_a_function_of_that_name(name):
    function = function_called(name)

    assert record_name(full_name(function)) == name


@pytest.mark.parametrize("name", ["Functional.linaer", "Nothing.at_all", "Torch.nn.functional.linaer", ""])
def test_a_name_without_a_function_leads_nowhere(name):
    assert function_called(name) is None


def test_every_function_that_torch_can_override_has_a_name_of_a_known_family():
    families = {"Functional", "Tensor", "Torch", "VF", "Distributed"}
    functions = [function for group in torch.overrides.get_overridable_functions().values() for function in group]

    assert len(functions) > 1000
    assert {record_name(full_name(function)).partition(".")[0] for function in functions} <= families


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("Functional.dropout", True),
        ("Torch.rand", True),
        ("Tensor.bernoulli_", True),
        ("Tensor.normal_", True),
        ("Torch.matmul", False),
        ("Functional.relu", False),
        ("Functional.no_such_thing", False),
    ],
)
def test_which_functions_may_draw_random_numbers(name, draws):
    assert may_draw(name) is draws


@pytest.mark.parametrize(
    ("name", "is_certain"),
    [
        ("Functional.gelu", True),
        ("Torch.matmul", True),
        ("Tensor.add_", True),
        ("Functional.dropout", False),
        ("Torch.bernoulli", False),
        ("VF.lstm", False),  # on CUDA it draws a seed on the host
        ("Functional.gumbel_softmax", False),  # no operator
        ("Tensor.no_such_thing", False),
        ("Ops.of_a_user.gelu", False),
    ],
)
def test_which_functions_draw_nowhere_but_where_their_tensors_are(name, is_certain):
    assert draws_where_its_tensors_are(name) is is_certain


@pytest.mark.parametrize("alias", ["mm", "spmm", "dsmm"])
def test_a_function_of_several_names_is_recorded_by_its_own(tmp_path, alias):
    with torchparity.capture(tmp_path / "run", level="L1"):
        getattr(torch, alias)(torch.eye(2), torch.eye(2))

    assert "Torch.mm.0.forward" in torchparity.open_run(tmp_path / "run").part().records
