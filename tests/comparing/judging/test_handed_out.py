"""A module's output that a call of one run alone touched last: nobody inside the module receives it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchparity
from torchparity.comparing import Kind


class Scaled(nn.Module):
    """A layer, and after it a product, unless the factor is 1."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.factor = nn.Linear(8, 8), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y if self.factor == 1 else y * self.factor


def verdict(folder, candidate: nn.Module, baseline: nn.Module, level: str, task: str):
    torch.manual_seed(1)
    inputs = torch.randn(5, 8)
    for name, model in (("candidate", candidate), ("baseline", baseline)):
        with torchparity.capture(folder / name, model=model, level=level, task=task):
            model(inputs)
    return torchparity.compare(folder / "candidate", folder / "baseline").verdict


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("factor", [1.01, 2.0])
def test_a_last_call_of_the_candidate_alone_is_named(tmp_path, task, factor):
    found = verdict(tmp_path, Scaled(factor), Scaled(1), "mix", task)

    assert found.kind is Kind.CALL
    assert found.first.record == "Tensor.mul.0.forward"
    assert "Module.Scaled.forward.0.output.0, which receives its result" in found.sentence


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_last_call_of_the_baseline_alone_is_named(tmp_path, task):
    found = verdict(tmp_path, Scaled(1), Scaled(2.0), "mix", task)

    assert found.kind is Kind.CALL
    assert found.first.partner == "Tensor.mul.0.forward"
    assert found.first.record == "Module.Scaled.forward.0"
    assert "Tensor.mul.0.forward, which only the baseline has, was the last to touch it" in found.sentence


@pytest.mark.parametrize("sides", [(2.0, 1), (1, 2.0)])
def test_where_modules_alone_are_recorded_the_module_is_named(tmp_path, sides):
    found = verdict(tmp_path, Scaled(sides[0]), Scaled(sides[1]), "L0", "statistics")

    assert found.kind is Kind.OPERATOR
    assert found.first.record == "Module.Scaled.forward.0"


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_a_last_call_that_changes_nothing_is_no_difference(tmp_path, level):
    found = verdict(tmp_path, Scaled(1.0000001), Scaled(1), level, "tensor")

    assert found.kind is Kind.AGREE
