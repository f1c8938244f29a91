"""Which memory is which: a number for each storage, and another one whenever what was known of it no longer holds.

A weak reference pins a storage's identity, so memory that was freed and used again is not
mistaken for what was there before. No reference is held to tensors themselves, not even a
weak one: torch refuses to swap such tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import Any

import torch

_UNSWEPT = 32 << 20  # bytes of memory that may be gone and still pinned
_UNSWEPT_EACH = 8 << 10  # and more where there are many to look through


class StorageGenerations:
    """Numbers memories within a step; the caller holds a lock while it changes anything."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}  # by the address of the storage
        self._next = count()
        self._versions: dict[int, int] = {}  # at which each memory was seen last
        self._pins: dict[int, Any] = {}  # weak references, in the form that is no object
        self._pinned_bytes = 0  # since the last sweep
        self.distrusted: set[int] = set()
        self._rewritten: set[int] = set()

    def number(self, memory: torch.UntypedStorage, version: int) -> int:
        """Return the number of a memory that is seen at this version; what was known of it at others is dropped.

        Tensors whose data somebody replaced share a memory and count versions each on its own:
        a version that comes again need not be what it was.
        """
        storage = memory._cdata
        if self._versions.get(storage) == version:
            return self.numbers[storage]
        if storage not in self._pins:
            self.pin(memory)
        self._versions[storage] = version
        number = self.numbers[storage] = next(self._next)
        return number

    def number_new(
        self, memories: Sequence[torch.UntypedStorage], storages: Sequence[int], versions: Iterable[int]
    ) -> list[int]:
        """Return numbers for memories that nobody saw, all different and of one device."""
        self._pins.update(zip(storages, map(torch.UntypedStorage._weak_ref, memories), strict=True))
        self._versions.update(zip(storages, versions, strict=True))
        numbers = list(islice(self._next, len(storages)))
        self.numbers.update(zip(storages, numbers, strict=True))
        if memories[0].device.type == "cpu":
            self._pinned_bytes += sum(map(torch.UntypedStorage.nbytes, memories))
            self._sweep_if_many()
        return numbers

    def pin(self, memory: torch.UntypedStorage) -> None:
        storage = memory._cdata
        if storage not in self._pins:
            self._pins[storage] = memory._weak_ref()
            if memory.device.type == "cpu":
                self._pinned_bytes += memory.nbytes()
                self._sweep_if_many()

    def drop(self, storage: int) -> None:
        """Make what was known of a memory too old to be found."""
        self.numbers[storage] = next(self._next)

    def drop_known(self, storage: int) -> None:
        if storage in self.numbers:
            self.drop(storage)

    def drop_all(self) -> None:
        for storage in self._pins:
            self.drop(storage)

    def never_cache(self, memory: torch.UntypedStorage) -> None:
        """Note that from now on this memory may change without a new version."""
        self.pin(memory)
        self.distrusted.add(memory._cdata)
        self.drop(memory._cdata)

    def invalidate(self, memory: torch.UntypedStorage) -> None:
        """Note that this memory was changed without a new version."""
        self.pin(memory)
        self._rewritten.add(memory._cdata)
        self.drop(memory._cdata)

    def trusts(self, storages: Iterable[int]) -> bool:
        """Tell whether a new version is the only way in which these memories change."""
        return self.distrusted.isdisjoint(storages) and self._rewritten.isdisjoint(storages)

    def holds(self, storages: Iterable[int]) -> bool:
        """Tell whether these memories are those that were pinned, and not others at addresses that were let go."""
        return self._pins.keys() >= set(storages)

    def moved_on(self, storages: Iterable[int], versions: Iterable[int]) -> None:
        """Note at which versions memories that are held were seen."""
        known = self._versions
        for storage, version in zip(storages, versions, strict=True):
            if known.get(storage) != version:
                known[storage] = version
                self.numbers[storage] = next(self._next)

    def clear(self) -> None:
        """Forget everything: the step is over."""
        self.numbers.clear()
        self._versions.clear()
        self.distrusted.clear()
        self._rewritten.clear()
        for pin in self._pins.values():
            torch.UntypedStorage._free_weak_ref(pin)  # type: ignore[no-untyped-call]
        self._pins.clear()

    def _sweep_if_many(self) -> None:
        """Let go of memories that are gone.

        What a weak reference leaves of each is small, but lies beside where it was: torch's
        next tensor would not fit there, and the heap would grow with every tensor of the step.
        """
        if self._pinned_bytes <= max(_UNSWEPT, _UNSWEPT_EACH * len(self._pins)):
            return
        self._pinned_bytes = 0
        for storage, pin in list(self._pins.items()):
            if torch.UntypedStorage._expired(pin):
                torch.UntypedStorage._free_weak_ref(pin)  # type: ignore[no-untyped-call]
                del self._pins[storage]
                self._versions.pop(storage, None)
                self.numbers.pop(storage, None)  # the next one at this address is another
                self.distrusted.discard(storage)
                self._rewritten.discard(storage)
