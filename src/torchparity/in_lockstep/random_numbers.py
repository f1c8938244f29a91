"""The state of every random generator that a model may draw from: those of torch, NumPy and Python, and its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from torchparity.devices import all_devices


class RandomState:
    """The state of the generators at one moment; `own` are generators that models hold."""

    def __init__(self, own: Iterable[object] = ()) -> None:
        generators = [generator for device in all_devices() for generator in device.generators()]
        self._torch = [(generator, generator.get_state()) for generator in generators]
        self._python, self._numpy = random.getstate(), np.random.get_state()
        self._own = [restoring for generator in own if (restoring := _restoring(generator)) is not None]

    def restore(self) -> None:
        """Set every generator back to that moment."""
        for generator, state in self._torch:
            generator.set_state(state)
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        for restore in self._own:
            restore()

    def restore_for(self, device: torch.device | None, like: torch.device | None) -> None:
        """Set every generator back; that of `device` as that of `like`, where both are of one kind."""
        self.restore()
        if device is None or like is None or device == like or device.type != like.type:
            return
        states = {generator.device: (generator, state) for generator, state in self._torch}
        if device in states and like in states:
            states[device][0].set_state(states[like][1])


def own_generators(model: nn.Module) -> dict[int, object]:
    """Return the generators that modules hold as attributes or in lists, tuples and dicts, each by its id."""
    found: dict[int, object] = {}
    seen: set[int] = set()
    waiting: list[Any] = [value for module in model.modules() for value in vars(module).values()]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif _restoring(value) is not None:
            found[id(value)] = value
    return found


def _restoring(generator: Any) -> Callable[[], object] | None:
    """Return a function that sets a generator back to this moment; None for what is no generator."""
    if isinstance(generator, torch.Generator):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, np.random.Generator):
        return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, random.Random) and not isinstance(generator, random.SystemRandom):
        return partial(generator.setstate, generator.getstate())
    return None
