"""The arenas of a recording: which one measures tensors of each (dtype, device)."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from torchparity.calls import attempted
from torchparity.devices import device_for
from torchparity.kernels.arenas import Arena, PendingReadings
from torchparity.recording.measuring.geometry import name_of

_log = logging.getLogger("torchparity")


@dataclass
class _DeviceArena:
    """An arena in use. After a flush that failed it takes no more tensors; what it measured before is still read."""

    device: torch.device
    arena: Arena
    is_broken: bool = False


class ArenaSlot:
    """Measures tensors of one dtype on one device; `add`, `add_all` and `layout_of` are those of the arena."""

    __slots__ = ("add", "add_all", "dtype", "is_zero_copy", "itemsize", "layout_of")

    def __init__(self, arena: Arena, dtype: torch.dtype) -> None:
        self.add, self.add_all, self.is_zero_copy = arena.add, arena.add_all, arena.is_zero_copy
        self.layout_of = arena.layout_of
        self.dtype, self.itemsize = name_of(dtype), dtype.itemsize


class Arenas:
    """The arenas of one recording: made when the first tensor of their device comes, flushed and read together."""

    def __init__(self, *, exact: bool, checksums: bool) -> None:
        self._exact, self._checksums = exact, checksums
        self._in_use: list[_DeviceArena] = []
        self._fast: dict[torch.device, _DeviceArena | None] = {}
        self._portable: dict[torch.device, _DeviceArena | None] = {}
        self._slots: dict[tuple[torch.dtype, torch.device], ArenaSlot | None] = {}
        self.zero_copy_slots: dict[tuple[torch.dtype, torch.device], ArenaSlot | None] = {}
        self.has_broken = False

    @property
    def device_types(self) -> set[str]:
        """The types of the devices whose tensors came, such as "cuda"."""
        return {device.type for _, device in self._slots} | {device.type for device in self._fast}

    def slot(self, dtype: torch.dtype, device: torch.device) -> ArenaSlot | None:
        """Return the arena for such tensors; None where they are measured one at a time on the host."""
        key = dtype, device
        if key not in self._slots:
            self._slots[key] = self._find_slot(dtype, device)
        return self._slots[key]

    def zero_copy_slot(self, dtype: torch.dtype, device: torch.device) -> ArenaSlot | None:
        """Return the arena that reads such tensors by their address, None where there is none."""
        slot = self.slot(dtype, device)
        if slot is not None and not slot.is_zero_copy:
            slot = None
        self.zero_copy_slots[dtype, device] = slot
        return slot

    def flush(self) -> Exception | None:
        """Measure the queue of every arena; return the error of the first that failed."""
        first_failure = None
        for used in self._in_use:
            failure = attempted(used.arena.flush)
            if failure is not None:
                first_failure = first_failure or failure
                self._give_up(used)
        return first_failure

    def take_step(self) -> list[tuple[torch.device, PendingReadings]]:
        """Start over; return the readings of the step, by device."""
        return [(used.device, used.arena.take()) for used in self._in_use]

    def _find_slot(self, dtype: torch.dtype, device: torch.device) -> ArenaSlot | None:
        for arena_on in (self._fast_arena, self._portable_arena):
            used = arena_on(device)
            if used is not None and not used.is_broken and name_of(dtype) in used.arena.dtypes:
                return ArenaSlot(used.arena, dtype)
        return None

    def _fast_arena(self, device: torch.device) -> _DeviceArena | None:
        if device not in self._fast:
            self._fast[device] = self._use(device, self._make_fast_arena(device))
        return self._fast[device]

    def _make_fast_arena(self, device: torch.device) -> Arena | None:
        plugin = device_for(device)
        arena = attempted(lambda: plugin.fast_arena(device, exact=self._exact, checksums=self._checksums))
        if not isinstance(arena, Exception):
            return arena
        _log.warning(
            "torchparity measures tensors on %s with torch's own operators, which takes longer: %s: %s",
            device,
            type(arena).__name__,
            str(arena)[:200],
        )
        return None

    def _portable_arena(self, device: torch.device) -> _DeviceArena | None:
        if self._checksums:
            return None
        if device not in self._portable:
            self._portable[device] = self._use(device, device_for(device).portable_arena(device))
        return self._portable[device]

    def _use(self, device: torch.device, arena: Arena | None) -> _DeviceArena | None:
        if arena is None:
            return None
        used = _DeviceArena(device, arena)
        self._in_use.append(used)
        return used

    def _give_up(self, used: _DeviceArena) -> None:
        if used.arena.drop():
            used.is_broken = self.has_broken = True
            self._slots.clear()
            self.zero_copy_slots.clear()
