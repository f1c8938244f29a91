"""The state of every random generator that a model may draw from: torch's on each device, NumPy's and Python's."""

from __future__ import annotations

import random

import numpy as np
import torch

from torchparity.devices import all_devices


class RandomState:
    """The state of the generators at one moment."""

    def __init__(self) -> None:
        generators = [generator for device in all_devices() for generator in device.generators()]
        self._torch = [(generator, generator.get_state()) for generator in generators]
        self._python, self._numpy = random.getstate(), np.random.get_state()

    def restore(self) -> None:
        """Set every generator back to that moment."""
        for generator, state in self._torch:
            generator.set_state(state)
        random.setstate(self._python)
        np.random.set_state(self._numpy)

    def restore_for(self, device: torch.device | None, like: torch.device | None) -> None:
        """Set every generator back; that of `device` as that of `like`, where both are of one kind."""
        self.restore()
        if device is None or like is None or device == like or device.type != like.type:
            return
        states = {generator.device: (generator, state) for generator, state in self._torch}
        if device in states and like in states:
            states[device][0].set_state(states[like][1])
