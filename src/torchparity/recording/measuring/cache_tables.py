"""The tables of the measurement cache: observed tensors by view, measurements by values."""

from __future__ import annotations

import threading
from collections.abc import Iterable

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

    def add_all(self, entries: Iterable[tuple[ViewKey, ValuesKey, ObservedTensor, Measurement]]) -> None:
        """Cache tensors that were measured together, so that each is a hit when it is observed alone."""
        with self.lock:
            for of_view, of_values, observed, measurement in entries:
                self.observed[of_view] = observed
                self.measurements[of_values] = measurement

    def clear(self) -> None:
        """Forget the step."""
        self.observed.clear()
        self.measurements.clear()
        self.generations.clear()
