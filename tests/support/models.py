"""Models that write memory in ways that are easily missed."""

from __future__ import annotations

import torch
from torch import nn


class WritesBetween(nn.Module):
    """Changes what one module returned, without a new version, before the next receives it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Identity(), nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x + 1)
        x.data.mul_(3)
        return self.second(x)


def flat_parameters() -> tuple[nn.Linear, torch.Tensor]:
    """Return a layer whose weight lies in the memory of a flat tensor, and that tensor."""
    model, flat = nn.Linear(2, 3, bias=False), torch.zeros(6)
    model.weight.data = flat.view(3, 2)
    return model, flat


# Settings under which the flat tensor itself is not part of any record.
WITHOUT_THE_FLAT_TENSOR = [
    {"level": "L0"},
    {"level": "L1", "list": ["linear"]},
    {"level": "L1", "risk_level": "CORE"},
    {"level": "mix", "list": ["Linear"]},
    {"level": "mix"},
]


def linear_and_relu() -> nn.Sequential:
    """Return the smallest model with two modules in it."""
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())
