"""What is held in memory: statistics alone hold no tensor, values are let go of step by step."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import torchparity
from torchparity.storage import SharedTensor


class Watched(nn.Module):
    """Three layers; `seen` has weak references to what they made, `alive` how many of the other's are left."""

    def __init__(self, other: Watched | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.seen: list[weakref.ref[torch.Tensor]] = []
        self.others = None if other is None else other.seen
        self.alive: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.others is not None:
            gc.collect()
            self.alive.append(sum(reference() is not None for reference in self.others))
        for layer in self.layers:
            x = torch.tanh(layer(x))
            self.seen.append(weakref.ref(x))
        return x * 2


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("backward", [False, True])
def test_no_tensor_of_the_candidate_is_alive_while_the_baseline_runs(task, backward):
    candidate = Watched()
    baseline = Watched(candidate)

    result = torchparity.lockstep(candidate, baseline, torch.randn(4, 16), task=task, backward=backward)

    assert result.agrees
    assert len(candidate.seen) == 3 and baseline.alive == [0]


def test_statistics_hold_no_values():
    part = torchparity.lockstep(Watched(), Watched(), torch.randn(4, 16)).comparison.parts[0]

    assert list(part.candidate.tensors()) == list(part.baseline.tensors()) == []


def test_values_of_a_step_are_gone_when_the_next_begins():
    alive_at_start = []

    class Counts(Watched):
        def forward(self, x):
            gc.collect()
            alive_at_start.append(sum(type(each) is SharedTensor for each in gc.get_objects()))
            return super().forward(x)

    result = torchparity.lockstep(Counts(), Watched(), torch.randn(4, 16), task="tensor", steps=3)

    assert len(alive_at_start) == 3 and alive_at_start[0] > 0 and len(set(alive_at_start)) == 1
    assert result.verdict.agreement.is_identical
