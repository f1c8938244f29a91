"""Calls of torch's functions: which are recorded, and under which number."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.support.runs import names_of
from torchparity import open_run
from torchparity.recording import capture


def test_functions_without_a_hash_are_passed_over(tmp_path):
    class Unhashable:
        __hash__ = None

        def __call__(self, tensor):
            return tensor + 1

    with capture(tmp_path, level="L1"):
        function = Unhashable()
        result = torch.overrides.handle_torch_function(function, (torch.ones(1),), torch.ones(1))

    assert result.item() == 2


def test_to_compare_tensors_of_one_graph_is_no_failure(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with capture(tmp_path):
        y = x * 2
        z = y.sin()
        assert (z > y).shape == (3,) and not torch.equal(z, y) and not torch.isnan(z).any()
        z.sum().backward()

    assert open_run(tmp_path).part().problems == []


def test_inference_mode_and_no_grad_record_forward_only(tmp_path):
    model = torch.nn.Linear(2, 2)
    with capture(tmp_path, model=model), torch.inference_mode():
        model(torch.ones(1, 2)).relu_()

    part = open_run(tmp_path).part()

    assert {record.direction for record in part.records.values()} == {"forward"}
    assert part.problems == []


def test_only_the_outermost_api_is_recorded_and_calls_are_counted(tmp_path):
    x = torch.randn(3, 4)
    with capture(tmp_path):
        F.cross_entropy(x, torch.tensor([0, 1, 2]))
        F.relu(x)
        F.relu(x) + 1

    assert names_of(tmp_path) == [
        "Torch.tensor.0.forward",
        "Functional.cross_entropy.0.forward",
        "Functional.relu.0.forward",
        "Functional.relu.1.forward",
        "Tensor.add.0.forward",
    ]


def test_a_call_that_raises_is_recorded_and_recording_goes_on(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path):
        try:
            torch.matmul(x, torch.ones(5))
        except RuntimeError as error:
            message = str(error)
        torch.exp(x)

    records = open_run(tmp_path).part().records

    assert message in records["Torch.matmul.0.forward"].error
    assert "Torch.exp.0.forward" in records


def test_calls_without_a_tensor_are_no_records(tmp_path):
    with capture(tmp_path), torch.set_grad_enabled(False):
        torch.device("cpu")
        torch.full((2,), 3.0).exp()

    part = open_run(tmp_path).part()
    assert list(part.records) == ["Torch.full.0.forward", "Tensor.exp.0.forward"]
    assert {name for group in part.stacks for name in group.records} == set(part.records)
    assert set(part.construct) == set(part.records)
