"""A step of training on the mean square of what a model returns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn


def squared_step(
    model: nn.Module,
    x: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Callable[[], None]:
    """Return a function that trains one step; `around` is entered for its forward and backward."""

    def step() -> None:
        optimizer.zero_grad()
        with around():
            model(x).square().mean().backward()
        optimizer.step()

    return step
