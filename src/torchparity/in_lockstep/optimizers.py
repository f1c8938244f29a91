"""The pair of optimizers that trains the two models, and whether each holds what it is to train."""

from __future__ import annotations

import torch
from torch import nn

from torchparity.errors import ConfigError

Optimizers = tuple[torch.optim.Optimizer, torch.optim.Optimizer]
_NAMES = ("model_a", "model_b")


def check_optimizers(optimizers: Optimizers, model_a: nn.Module, model_b: nn.Module) -> None:
    """Raise `ConfigError` where the optimizers would not train the models, each its own."""
    _check_pair(optimizers)
    parameters = [set(map(id, model.parameters())) for model in (model_a, model_b)]
    if parameters[0] & parameters[1]:
        raise ConfigError("lockstep cannot train two models that share parameters; copy one of them (copy.deepcopy).")
    held = [
        {id(parameter) for group in optimizer.param_groups for parameter in group["params"]} for optimizer in optimizers
    ]
    for side, name in enumerate(_NAMES):
        if held[side] & parameters[1 - side]:
            raise ConfigError(
                f"lockstep found {_NAMES[1 - side]}'s parameters in the optimizer of {name}; "
                "give them in the order of the models, each with parameters of its own."
            )
        if parameters[side] and not held[side] & parameters[side]:
            raise ConfigError(
                f"lockstep found no parameter of {name} in its optimizer, so that it would not train; "
                f"make the optimizer from the parameters of this very model, after it was copied."
            )


def _check_pair(optimizers: object) -> None:
    if not isinstance(optimizers, (tuple, list)) or len(optimizers) != len(_NAMES):
        entries = f" of {len(optimizers)} entries" if isinstance(optimizers, (tuple, list)) else ""
        raise ConfigError(
            f"lockstep was given optimizers=a {type(optimizers).__name__}{entries}; "
            "it is a pair, (the candidate's, the baseline's)."
        )
    for optimizer in optimizers:
        if not hasattr(optimizer, "param_groups"):
            raise ConfigError(
                f"lockstep was given a {type(optimizer).__name__} in optimizers; it takes two optimizers of torch."
            )
