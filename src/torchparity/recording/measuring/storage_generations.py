"""The generation of each storage: a number in every cache key, replaced to invalidate the storage's entries.

A weak reference pins a storage's identity, so memory that was freed and used again is not
mistaken for what was there before. No reference is held to tensors themselves, not even a
weak one: torch refuses to swap such tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import Any

import torch

from torchparity.devices import device_for

_UNSWEPT = 32 << 20  # bytes of host memory that may be freed while their storages are still pinned
_UNSWEPT_EACH = 8 << 10  # and more where there are many storages to look through


class StorageGenerations:
    """Generations of storages within a step, by the address of the storage; changes need the cache's lock."""

    def __init__(self) -> None:
        self.current: dict[int, int] = {}
        self.uncacheable: set[int] = set()
        self._next = count()
        self._versions: dict[int, int] = {}  # at which each storage was observed last
        self._pins: dict[int, Any] = {}  # weak references, as torch's pointers instead of objects
        self._pinned_bytes = 0  # of host memory, since the last sweep
        self._hosts: dict[torch.device, bool] = {}  # which devices are the host

    def at_version(self, storage: torch.UntypedStorage, version: int) -> int:
        """Return the generation of a storage that is observed at this version; a new one if it was at another.

        Tensors whose `.data` somebody replaced share a storage and count versions each on its own:
        a version that comes again need not mean the same values.
        """
        address = storage._cdata
        if self._versions.get(address) == version:
            return self.current[address]
        if address not in self._pins:
            self._pin(storage, address)
        self._versions[address] = version
        generation = self.current[address] = next(self._next)
        return generation

    def of_new(
        self, storages: Sequence[torch.UntypedStorage], addresses: Sequence[int], versions: Iterable[int]
    ) -> list[int]:
        """Return generations for storages that were never observed, all different and on one device."""
        self._pins.update(zip(addresses, map(torch.UntypedStorage._weak_ref, storages), strict=True))
        self._versions.update(zip(addresses, versions, strict=True))
        generations = list(islice(self._next, len(addresses)))
        self.current.update(zip(addresses, generations, strict=True))
        if device_for(storages[0].device).is_host:
            self._pinned_bytes += sum(map(torch.UntypedStorage.nbytes, storages))
            if self._pinned_bytes > _UNSWEPT:
                self._sweep_if_due()
        return generations

    def advance(self, addresses: Iterable[int], versions: Iterable[int]) -> None:
        """Note at which versions pinned storages were observed; those at another version get a new generation."""
        last_versions = self._versions
        for address, version in zip(addresses, versions, strict=True):
            if last_versions.get(address) != version:
                last_versions[address] = version
                self.current[address] = next(self._next)

    def invalidate(self, address: int) -> None:
        """Give a storage a new generation; one that was never observed has nothing to invalidate."""
        if address in self.current:
            self.current[address] = next(self._next)

    def invalidate_all(self) -> None:
        """Give every storage a new generation."""
        for address in self.current:
            self.current[address] = next(self._next)

    def never_cache(self, storage: torch.UntypedStorage) -> None:
        """From now on this storage may change without a new version."""
        address = storage._cdata
        if address not in self._pins:
            self._pin(storage, address)
        self.uncacheable.add(address)
        self.current[address] = next(self._next)

    def holds(self, addresses: Iterable[int]) -> bool:
        """Tell whether all these storages are pinned, so that no other storage can be at their addresses."""
        return self._pins.keys() >= set(addresses)

    def clear(self) -> None:
        """Forget everything: the step is over."""
        self.current.clear()
        self.uncacheable.clear()
        self._versions.clear()
        for pin in self._pins.values():
            torch.UntypedStorage._free_weak_ref(pin)  # type: ignore[no-untyped-call]
        self._pins.clear()

    def _pin(self, storage: torch.UntypedStorage, address: int) -> None:
        self._pins[address] = storage._weak_ref()
        device = storage.device
        if device not in self._hosts:
            self._hosts[device] = device_for(device).is_host
        if self._hosts[device]:
            self._pinned_bytes += storage.nbytes()
            if self._pinned_bytes > _UNSWEPT:
                self._sweep_if_due()

    def _sweep_if_due(self) -> None:
        """Let go of storages that are freed.

        The little that a weak reference leaves of a freed storage lies beside where its memory was: torch's
        next tensor would not fit there, and the heap would grow with every tensor of the step.
        """
        if self._pinned_bytes <= _UNSWEPT_EACH * len(self._pins):
            return
        self._pinned_bytes = 0
        for address, pin in list(self._pins.items()):
            if torch.UntypedStorage._expired(pin):
                torch.UntypedStorage._free_weak_ref(pin)  # type: ignore[no-untyped-call]
                del self._pins[address]
                self._versions.pop(address, None)
                self.current.pop(address, None)  # the next storage at this address is another
                self.uncacheable.discard(address)
