"""A step of training on the mean square of what a model returns."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def squared_step(model: nn.Module, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """Return a function that trains one step."""

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step
