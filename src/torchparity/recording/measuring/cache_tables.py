"""The tables of the measurement cache: observed tensors by view, measurements by values."""

from __future__ import annotations

import threading

from torchparity.recording.measuring.keys import ValuesKey, ViewKey
from torchparity.recording.measuring.observed import Measurement, ObservedTensor
from torchparity.recording.measuring.storage_generations import StorageGenerations


class CacheTables:
    """Both tables and the generations that invalidate their entries; whoever changes one holds the lock.

    Looking something up takes no lock: entries of an old generation are never found.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.generations = StorageGenerations()
        self.observed: dict[ViewKey, ObservedTensor] = {}
        self.measurements: dict[ValuesKey, Measurement] = {}

    def end_step(self, step: int) -> None:
        """Forget the step."""
        self.observed.clear()
        self.measurements.clear()
        self.generations.end_step(step)
