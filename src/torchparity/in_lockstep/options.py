"""Options of `lockstep`, as types and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

import torch

from torchparity.comparing import Alignment
from torchparity.errors import ConfigError, nearest
from torchparity.in_lockstep.optimizers import Optimizers

Level = Literal["mix", "L1", "L0"]
Task = Literal["statistics", "tensor"]
Loss = Callable[[Any], torch.Tensor]


class LockstepFields(TypedDict, total=False):
    """The keyword arguments of `lockstep`."""

    backward: bool
    loss: Loss | None
    steps: int
    optimizers: Optimizers | None
    level: Level
    task: Task
    cast_inputs: bool
    align: Alignment
    ignore: Sequence[str]
    tolerance: float | None


@dataclass(frozen=True)
class Plan:
    """The way the two models are run."""

    backward: bool
    loss: Loss | None
    steps: int
    optimizers: Optimizers | None
    level: Level
    task: Task
    cast_inputs: bool

    def __post_init__(self) -> None:
        check_choice("level", self.level, get_args(Level))
        check_choice("task", self.task, get_args(Task))
        if type(self.steps) is not int or self.steps < 1:
            raise ConfigError(f"lockstep was given steps={self.steps!r}; it is a whole number from 1 on.")
        for name, given in (("loss", self.loss), ("optimizers", self.optimizers)):
            if given is not None and not self.backward:
                raise ConfigError(f"lockstep uses {name} with gradients alone; say backward=True too.")


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `ConfigError` for an option that is none of the choices."""
    if value not in choices:
        hint = nearest(str(value), choices)
        raise ConfigError(f"lockstep was given {field}={value!r}.{hint} There are: {', '.join(choices)}.")
