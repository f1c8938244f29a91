"""Gradients to start a backward pass from: those that were recorded, or drawn from their statistics."""

from __future__ import annotations

import torch

from torchparity.check.cases import Case, Draws
from torchparity.check.cases.arguments import stored_values
from torchparity.check.cases.drawing import drawn
from torchparity.naming import flatten
from torchparity.records import LEAF_TYPES, Record, TensorLeaf


class GradientSeeds:
    """The gradients of a call's outputs, made once and given to every run in its own dtype and on its device."""

    def __init__(self, case: Case, backward: Record) -> None:
        self._case, self._backward = case, backward
        self._leaves = _by_place(backward)
        self._made: dict[tuple[str, torch.Size], torch.Tensor] = {}

    def seed(self, path: str, output: torch.Tensor) -> torch.Tensor | None:
        """Return the gradient of one output; None where the recorded pass had none for it."""
        leaf = self._leaves.get(path)
        if leaf is None:
            return None
        key = path, output.shape
        if key not in self._made:
            self._made[key] = self._values(path, leaf, output.shape)
        return self._made[key].to(device=output.device, dtype=output.dtype)

    def made(self) -> dict[str, torch.Tensor]:
        """Return what was given so far, by place of the output."""
        return {path: tensor for (path, _), tensor in self._made.items()}

    def _values(self, path: str, leaf: TensorLeaf, shape: torch.Size) -> torch.Tensor:
        stored = stored_values(self._case.part, leaf)
        if stored is not None and stored.shape == shape:
            return stored
        return drawn(leaf, Draws(f"{self._backward.name}.input.{path}"), shape)


def _by_place(backward: Record) -> dict[str, TensorLeaf]:
    leaves: dict[str, TensorLeaf] = {}
    for place, nest in enumerate(backward.input_args):
        leaves |= {path: leaf for path, leaf in flatten(str(place), nest, LEAF_TYPES) if isinstance(leaf, TensorLeaf)}
    return leaves
