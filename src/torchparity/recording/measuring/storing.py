"""Keeps the values of some tensors besides what is measured of all."""

from __future__ import annotations

import torch

from torchparity.recording.measuring.geometry import inner
from torchparity.recording.measuring.measurement_cache import Meter
from torchparity.recording.measuring.observed import SeenTensor


class StoringMeter:
    """Sees as the meter does, and keeps a copy of the values with what was measured."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def see(self, tensor: torch.Tensor, *, keep: bool = True) -> SeenTensor:
        seen = self._meter.see(tensor, keep=keep)
        if seen.measurement is not None and seen.measurement.values is None:
            seen.measurement.values = self._meter.copy(inner(tensor))
        return seen
