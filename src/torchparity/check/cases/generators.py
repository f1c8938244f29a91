"""Inputs that cannot be drawn element by element: sorted, positive definite, distinct, summing to something."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torchparity.check.cases.drawing import Draws
from torchparity.records import Record, TensorLeaf

Generator = Callable[[Record, TensorLeaf, Draws], torch.Tensor]


def generator_for(operator: str, path: str, leaf: TensorLeaf) -> Generator | None:
    """Return how an argument of an operator is made; None where drawing its elements is right."""
    return None
