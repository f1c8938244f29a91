"""Nested tensors, strided and jagged."""

from __future__ import annotations

import pytest
import torch

from tests.support.runs import values
from torchparity import open_run
from torchparity.recording import capture


def nested(layout):
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.full((4, 3), 5.0)], layout=layout, requires_grad=True)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_nested_tensors_are_recorded_in_one_piece(tmp_path, layout, task):
    x = nested(layout)
    with capture(tmp_path, task=task, level="L1"):
        y = x * 2.0
        (y.values() if layout is torch.jagged else torch.nested.to_padded_tensor(y, 0.0)).sum().backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    received, returned = (
        part.records["Tensor.mul.0.forward"].input_args[0],
        part.records["Tensor.mul.0.forward"].output[0],
    )
    assert (received.statistics.max, received.statistics.min, received.requires_grad) == (5, 1, True)
    assert (returned.statistics.max, returned.statistics.min) == (10, 2)
    assert received.layout == returned.layout == ("jagged" if layout is torch.jagged else "nested")
    assert part.records["Tensor.mul.0.backward"].output[0].statistics.max == 2
    assert torch.equal(torch.ones_like(x.grad.values()) * 2, x.grad.values())
    if task == "tensor":
        assert values(tmp_path, "Tensor.mul.0.forward", "output") == y.detach().values().tolist()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_with_holes_is_named_and_not_measured(tmp_path):
    whole = torch.randn(2, 5, 3)
    holed = torch.nested.narrow(whole, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged)
    with capture(tmp_path, level="L1"):
        torch.sin(holed)

    leaf = open_run(tmp_path).part().records["Torch.sin.0.forward"].input_args[0]
    assert (leaf.layout, leaf.shape, leaf.statistics) == ("jagged", (2,), None)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_written_without_a_new_version_are_looked_at_again(tmp_path, layout):
    x = nested(layout).detach()
    with capture(tmp_path, level="L1") as recording:
        torch.sin(x)
        x.data.mul_(3)
        torch.sin(x)
        recording.save(x, "x")
        x.data.mul_(3)
        recording.save(x, "x")

    records = open_run(tmp_path).part().records
    assert [records[f"Torch.sin.{n}.forward"].input_args[0].statistics.max for n in (0, 1)] == [5, 15]
    assert [records[f"x.{n}.debug"].value.statistics.max for n in (0, 1)] == [15, 45]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_values_of_nested_tensors_are_kept_where_a_list_asks(tmp_path, layout):
    x = nested(layout)
    with capture(tmp_path, level="L1", tensor_list=["sin"]):
        torch.sin(x)

    assert values(tmp_path, "Torch.sin.0.forward") == x.detach().values().tolist()
