"""Perturbations: each changes the inputs of an API so little that a sound API's result hardly moves.

Plugin folder: each `x.py` is the perturbation that `pert_mode` calls x, and holds a `PLUGIN` that
keeps the contract `Perturbation`. To add a perturbation, add a file, and its name to `config/settings.py`.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from torchparity import plugins
from torchparity.perturb.subject import Moved, Raised, Subject

_FOLDER = "perturb.perturbations"


class Perturbation(Protocol):
    """One way to change inputs. It changes no tensor that it is given, and its tensors share no memory with those."""

    name: str
    is_differentiable: bool  # gradients flow through it to the original inputs: it can serve as a fix
    leaves_autocast: bool  # the API runs without autocast, which would undo the change
    raised: Raised  # dtypes, and those that take their place; {} where it changes anything else too
    moves_elements: bool  # to other places, with whatever depends on the place, such as a gradient
    moved: Moved  # tensors that it moves by a unit in their last place, which results cannot but follow

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        """Return other tensors for those of a call; one that stays may be returned itself.

        Raises `CancelledError` where there is nothing to change, or the result would not be the same.
        """

    def changed(self, value: Any) -> Any:
        """Return another argument for one that is no tensor: a dtype, a device."""


def perturbation(name: str) -> Perturbation:
    """Return the perturbation of a name."""
    found: Perturbation = plugins.load(_FOLDER, name)
    return found
