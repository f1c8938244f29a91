"""Flips the last bit of every element of the first tensor: finds APIs that amplify rounding of their inputs."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.float_bits import with_noise
from torchparity.perturb.subject import NOTHING_RAISED, Moved, Subject


class BitNoise:
    """See the contract in `perturbations/__init__.py`."""

    name = "bit_noise"
    is_differentiable = False
    leaves_autocast = False
    raised = NOTHING_RAISED
    moves_elements = False
    moved: Moved = "first"

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        # Of the first alone: equal numbers in two tensors would move alike, and their difference not at all.
        return with_noise(subject, [lambda bits, moves: bits ^ moves.to(bits.dtype)])

    def changed(self, value: Any) -> Any:
        return value


PLUGIN = BitNoise()
