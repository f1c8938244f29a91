"""Keeps the values of some tensors besides what is measured of all."""

from __future__ import annotations

import torch

from torchparity.recording.measuring.geometry import inner
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.observed import ObservedTensor


class StoringCache:
    """Sees as the measurements does, and keeps a copy of the values with what was measured."""

    def __init__(self, measurements: MeasurementCache) -> None:
        self._measurements = measurements

    def observe(self, tensor: torch.Tensor, *, keep: bool = True) -> ObservedTensor:
        seen = self._measurements.observe(tensor, keep=keep)
        if seen.measurement is not None and seen.measurement.values is None:
            seen.measurement.values = self._measurements.copy(inner(tensor))
        return seen
