"""What measures tensors where they lie: an arena for each device, and who waits for its readings."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from torchparity.capture._boundary import attempted
from torchparity.capture._memory import name_of
from torchparity.capture._seen import Measurement
from torchparity.kernels._arena import Arena, HostArena

_log = logging.getLogger("torchparity")


class _Device:
    """An arena and the measurements it will fill in, in the order in which it will tell them."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.open: list[Measurement] = []
        self.is_broken = False  # it failed: what it measured before is still taken

    def flush(self) -> None:
        try:
            self.arena.flush()
        finally:
            lost = self.arena.drop()
            if lost:
                del self.open[-lost:]
                self.is_broken = True

    def finish(self) -> Callable[[], None]:
        waiting, self.open = self.open, []
        readings = self.arena.take()

        def fill() -> None:
            for measurement, reading in zip(waiting, readings(), strict=True):
                measurement.statistics, measurement.checksum = reading

        return fill


class Gauge:
    """Measures tensors of one dtype on one device."""

    __slots__ = ("_device", "_dtype", "size")

    def __init__(self, device: _Device, dtype: torch.dtype) -> None:
        self._device, self._dtype, self.size = device, name_of(dtype), dtype.itemsize

    def add(self, address: int, count: int, measurement: Measurement) -> None:
        """Measure what is at an address with the next flush; it must stay there until then."""
        device = self._device
        device.arena.add(address, count, self._dtype)
        device.open.append(measurement)


class Gauges:
    """Finds the gauge of a tensor, and flushes and finishes all."""

    def __init__(self, *, exact: bool, checksums: bool) -> None:
        self._exact, self._checksums = exact, checksums
        self._known: dict[tuple[torch.dtype, torch.device], Gauge | None] = {}
        self._devices: dict[torch.device, _Device | None] = {}
        self.flushes: list[Callable[[], None]] = []
        self.has_broken = False

    def of(self, dtype: torch.dtype, device: torch.device) -> Gauge | None:
        """Return what measures such tensors, None where nothing does."""
        try:
            return self._known[dtype, device]
        except KeyError:
            found = self._known[dtype, device] = self._make(dtype, device)
            return found

    def finish(self) -> list[Callable[[], None]]:
        """Begin anew; return what fills in what was measured, when the devices have."""
        return [device.finish() for device in self._devices.values() if device is not None]

    def _make(self, dtype: torch.dtype, device: torch.device) -> Gauge | None:
        if device not in self._devices:
            arena = _arena_for(device, exact=self._exact, checksums=self._checksums)
            self._devices[device] = made = None if arena is None else _Device(arena)
            if made is not None:
                self.flushes.append(self._flush_of(made))
        known = self._devices[device]
        if known is None or known.is_broken or name_of(dtype) not in known.arena.dtypes:
            return None
        return Gauge(known, dtype)

    def _flush_of(self, device: _Device) -> Callable[[], None]:
        def flush() -> None:
            was_broken = device.is_broken
            try:
                device.flush()
            finally:
                if device.is_broken and not was_broken:
                    self.has_broken = True
                    self._known.clear()

        return flush


def _arena_for(device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
    if device.type == "cpu":
        return HostArena(exact=exact, checksums=checksums)
    if device.type == "cuda":
        arena = attempted(lambda: _cuda_arena(device, checksums=checksums))
        if not isinstance(arena, Exception):
            return arena
        _log.warning(
            "torchparity measures tensors on %s with torch's own operators, which takes longer: %s: %s",
            device,
            type(arena).__name__,
            str(arena)[:200],
        )
    return None


def _cuda_arena(device: torch.device, *, checksums: bool) -> Arena:
    from torchparity.kernels._cuda import CudaArena  # Triton takes a second to import

    arena = CudaArena(device, checksums=checksums)
    arena.try_out()
    return arena
