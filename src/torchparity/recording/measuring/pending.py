"""Measurements of a step that is over, which its devices may still be computing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import torch

from torchparity.kernels.arenas import MeasuredRows, PendingReadings, joined
from torchparity.kernels.cpu import sketch_of_repeated
from torchparity.recording.measuring.observed import Measurement
from torchparity.records import Statistics


class ExpandedMeasurement(msgspec.Struct, gc=False):
    """An expanded tensor: each element was measured once and is shown several times."""

    measurement: Measurement
    once: Measurement
    times: int
    dtype: str | None  # of a tensor that shows one number; any other is too large to have a sketch

    def fill(self) -> None:
        """Fill in the measurement from that of the elements."""
        statistics = self.once.statistics
        if statistics is not None:
            sketch = None
            if self.dtype is not None and self.times > 1:
                sketch = sketch_of_repeated(statistics.finite_max or 0, self.times, self.dtype)
            self.measurement.statistics = _repeated(statistics, self.times, sketch)


class PendingMeasurements:
    """The measurements of one step; `wait` fills them in. Printing it shows how many are open on which device."""

    def __init__(
        self, readings: Sequence[tuple[torch.device, PendingReadings]], expanded: Sequence[ExpandedMeasurement] = ()
    ) -> None:
        self._readings, self._expanded = list(readings), list(expanded)
        self._is_waiting = True
        self._count_by_device: Counter[str] = Counter()
        for device, part in self._readings:
            self._count_by_device[str(device)] += len(part)

    def wait(self) -> None:
        """Block until the devices are done and fill in every measurement; any thread may call it."""
        measurement: Measurement
        for _, part in self._readings:
            for measurement, statistics, checksum in part.wait():
                measurement.statistics, measurement.checksum = statistics, checksum
        self._end()

    def wait_for_rows(self) -> MeasuredRows:
        """Block until the devices are done; return all rows, and fill in the measurements that a row does not tell.

        The others get the number of their row.
        """
        rows = joined([part.wait_for_rows() for _, part in self._readings])
        are_plain = rows.are_plain().tolist()
        measurement: Measurement
        for number, measurement in enumerate(rows.owners):
            measurement.row = number
        for number, is_plain in enumerate(are_plain):
            if not is_plain:
                fill(rows.owners[number], rows)
        for expanded in self._expanded:
            fill(expanded.once, rows)
        self._end()
        return rows

    def _end(self) -> None:
        for expanded in self._expanded:
            expanded.fill()
        self._readings, self._expanded = [], []
        self._is_waiting = False

    @property
    def state(self) -> str:
        """The measurements by device, and whether they are still waited for: `12 measurements on cpu, waiting`."""
        counts = [f"{count} measurements on {device}" for device, count in self._count_by_device.items() if count]
        return ", ".join([*(counts or ["0 measurements"]), "waiting" if self._is_waiting else "filled in"])

    def __repr__(self) -> str:
        return f"<PendingMeasurements {self.state}>"


def fill(measurement: Measurement, rows: MeasuredRows) -> None:
    """Fill in a measurement from its row, if it has one."""
    if measurement.row >= 0:
        measurement.statistics, measurement.checksum = rows.reading(measurement.row)
        measurement.row = -1


def _repeated(statistics: Statistics, times: int, sketch: bytes | None) -> Statistics:
    """Return the statistics of a tensor that shows each element several times."""
    norms = {name: getattr(statistics, name) for name in ("norm", "finite_norm")}
    counts = {name: getattr(statistics, f"{name}_count") for name in ("nan", "inf", "negative_inf", "zero")}
    return msgspec.structs.replace(
        statistics,
        **{name: None if norm is None else norm * times**0.5 for name, norm in norms.items()},
        **{f"{name}_count": None if count is None else count * times for name, count in counts.items()},
        sketch=sketch,
    )
