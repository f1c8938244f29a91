"""Moves every element by one unit in its last place, tensor after tensor away from zero and towards it."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import torch

from torchparity.perturb.float_bits import with_noise
from torchparity.perturb.subject import NOTHING_RAISED, Moved, Subject

# The bits of a float, read as an integer without its sign, count its distance from zero in units of the last place.


def _away_from_zero(bits: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    return bits + moves.to(bits.dtype)


def _towards_zero(bits: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    return bits - moves.to(bits.dtype)


class AddNoise:
    """See the contract in `perturbations/__init__.py`."""

    name = "add_noise"
    is_differentiable = False
    leaves_autocast = False
    raised = NOTHING_RAISED
    moves_elements = False
    moved: Moved = "all"

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        return with_noise(subject, cycle([_away_from_zero, _towards_zero]))

    def changed(self, value: Any) -> Any:
        return value


PLUGIN = AddNoise()
