"""tensor_list: values of some records beside the statistics of all."""

from __future__ import annotations

import torch
from torch import nn

from tests.support.runs import stored_records
from torchparity import open_run
from torchparity.recording import capture


def test_a_tensor_list_stores_those_records_beside_the_statistics_of_all(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with capture(tmp_path, tensor_list=["exp", "Torch.sin.1.forward"]):
        y = torch.exp(torch.sin(x))
        torch.sin(y).sum().backward()

    part = open_run(tmp_path).part()

    expected = ["Torch.exp.0.forward", "Torch.sin.1.forward", "Torch.exp.0.backward"]
    assert stored_records(part) == (expected, expected)
    assert all(
        item.leaf.statistics for record in part.records.values() for item in record.items() if item.leaf is not None
    )
    assert torch.equal(torch.tensor(part.tensor(part.records["Torch.exp.0.forward"].output[0]).array), y.detach())
    assert part.info.task == "statistics"
    assert part.verify() == []


def test_a_tensor_list_holds_values_of_the_moment(tmp_path):
    x = torch.ones(2)
    with capture(tmp_path, tensor_list=["exp"]):
        torch.exp(x)
        x.add_(1)
        torch.exp(x)

    part = open_run(tmp_path).part()

    assert [part.tensor(part.records[f"Torch.exp.{call}.forward"].input_args[0]).array.tolist() for call in (0, 1)] == [
        [1, 1],
        [2, 2],
    ]


def test_a_tensor_list_may_name_modules_their_parameters_and_gradients(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model, level="L0", tensor_list=["Module.0.Linear"]):
        model(torch.ones(1, 2)).sum().backward()

    part = open_run(tmp_path).part()

    assert stored_records(part)[1] == [
        "Module.0.Linear.forward.0",
        "Module.0.Linear.backward.0",
        "Module.0.Linear.parameters_grad.0",
    ]
