"""What measures tensors where they lie: an arena for each device, and who waits for its readings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from torchparity.calls.guard.boundary import attempted
from torchparity.kernels.arenas.host import Arena, HostArena
from torchparity.recording.measuring.geometry import name_of
from torchparity.recording.measuring.observed import Measurement

_log = logging.getLogger("torchparity")


@dataclass
class _Device:
    """An arena, and whether it still works; what it measured before it failed is still taken."""

    arena: Arena
    is_broken: bool = False

    def finish(self) -> Callable[[], None]:
        readings = self.arena.take()

        def fill() -> None:
            measurement: Measurement
            for measurement, statistics, checksum in readings():
                measurement.statistics, measurement.checksum = statistics, checksum

        return fill


class ArenaSlot:
    """Measures tensors of one dtype on one device: `add(address, count, dtype, measurement)`, as arenas have it."""

    __slots__ = ("add", "add_all", "dtype", "size")

    def __init__(self, device: _Device, dtype: torch.dtype) -> None:
        self.add, self.add_all = device.arena.add, device.arena.add_all
        self.dtype, self.size = name_of(dtype), dtype.itemsize


class Arenas:
    """Finds the arena of a tensor, and flushes and finishes all."""

    def __init__(self, *, exact: bool, checksums: bool) -> None:
        self._exact, self._checksums = exact, checksums
        self._known: dict[tuple[torch.dtype, torch.device], ArenaSlot | None] = {}
        self._devices: dict[torch.device, _Device | None] = {}
        self.has_broken = False

    def of(self, dtype: torch.dtype, device: torch.device) -> ArenaSlot | None:
        """Return what measures such tensors, None where nothing does."""
        try:
            return self._known[dtype, device]
        except KeyError:
            found = self._known[dtype, device] = self._make(dtype, device)
            return found

    def flush(self) -> Exception | None:
        """Measure what waits on every device; return what went wrong on the first that failed."""
        first = None
        for device in self._devices.values():
            if device is not None:
                failure = attempted(device.arena.flush)
                if failure is not None:
                    first = first or failure
                    self._give_up(device)
        return first

    def finish(self) -> list[Callable[[], None]]:
        """Begin anew; return what fills in what was measured, when the devices have."""
        return [device.finish() for device in self._devices.values() if device is not None]

    def _make(self, dtype: torch.dtype, device: torch.device) -> ArenaSlot | None:
        if device not in self._devices:
            arena = _arena_for(device, exact=self._exact, checksums=self._checksums)
            self._devices[device] = None if arena is None else _Device(arena)
        known = self._devices[device]
        if known is None or known.is_broken or name_of(dtype) not in known.arena.dtypes:
            return None
        return ArenaSlot(known, dtype)

    def _give_up(self, device: _Device) -> None:
        if device.arena.drop():
            device.is_broken = self.has_broken = True
            self._known.clear()


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
    from torchparity.kernels.arenas.cuda import CudaArena  # Triton takes a second to import

    arena = CudaArena(device, checksums=checksums)
    arena.try_out()
    return arena
