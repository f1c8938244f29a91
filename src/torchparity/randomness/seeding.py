"""Making two runs comparable: the same random numbers, and no dropout where that is wanted."""

from __future__ import annotations

import os
import random

import numpy as np
import torch
from torch.nn import functional

from torchparity.devices import all_devices
from torchparity.errors import ConfigError
from torchparity.randomness.random_calls import Restarting

_SEEDS = 1 << 32  # NumPy has no more


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False, is_enhanced: bool = False) -> None:
    """Fix every source of randomness; `mode` also asks torch for deterministic algorithms.

    `rm_dropout` lets torch's dropout functions drop nothing from now on, whatever calls them; not the
    dropout inside of attention. With `is_enhanced` every call of this thread that draws random numbers
    begins with the seed again, until `seed_all` is called without it. Hash seeds only take
    effect in processes started from this one.
    """
    if type(seed) is not int or not 0 <= seed < _SEEDS:
        raise ConfigError(f"seed_all was given {seed!r}; a seed is a whole number from 0 to {_SEEDS - 1}.")
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # every device's generator too
    for device in all_devices():
        device.make_reproducible(deterministic=mode)
    if mode:
        torch.use_deterministic_algorithms(True)
    if rm_dropout:
        _remove_dropout()
    Restarting.end_all()
    if is_enhanced:
        Restarting(seed).attach()


def _remove_dropout() -> None:
    """Replace torch's dropout by ones that drop nothing, as msprobe does."""
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        original = getattr(functional, name)
        if not hasattr(original, "_without_dropout"):
            setattr(functional, name, _never_dropping(original))


def _never_dropping(original: object) -> object:
    def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        return original(input, 0.0, training, inplace)  # type: ignore[operator, no-any-return]

    dropout._without_dropout = True  # type: ignore[attr-defined]
    return dropout
