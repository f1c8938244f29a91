"""The generation of each storage: a number in every cache key, replaced to invalidate the storage's entries.

A weak reference pins a storage's identity, so memory that was freed and used again is not
mistaken for what was there before. No reference is held to tensors themselves, not even a
weak one: torch refuses to swap such tensors. The lineage of storages that outlive a step stays, and
with it their pins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, islice, repeat
from operator import attrgetter
from typing import Any

import torch

from torchparity.devices import device_for
from torchparity.recording.measuring.geometry import has_memory
from torchparity.recording.measuring.lineage import Lineage, Source

_UNSWEPT = 32 << 20  # bytes of host memory that may be freed while their storages are still pinned
_UNSWEPT_EACH = 8 << 10  # and more where there are many storages to look through
_nbytes = attrgetter("nbytes")
_exhaust = partial(deque[object], maxlen=0)  # goes through an iterator without a loop


class StorageGenerations:
    """Generations of storages within a step, by the address of the storage; changes need the cache's lock."""

    def __init__(self) -> None:
        self.current: dict[int, int] = {}
        self.uncacheable: set[int] = set()
        self._lent: dict[int, int] = {}  # of those, to how many transfers
        self.lineage = Lineage()
        self._sources, self._traced = self.lineage.sources, self.lineage.versions
        self._next = count()
        self._versions: dict[int, int] = {}  # at which each storage was observed last
        self._pins: dict[int, Any] = {}  # weak references, as torch's pointers instead of objects
        self._pinned_bytes = 0  # of host memory, since the last sweep
        self._hosts: dict[torch.device, bool] = {}  # which devices are the host

    def at_version(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, version: int, maker: Source | None = None
    ) -> int:
        """Return the generation of a storage that is observed at this version; a new one if it was at another.

        `maker` is the source of a tensor that is observed as the output of a call.

        Tensors whose `.data` somebody replaced share a storage and count versions each on its own:
        a version that comes again need not mean the same values.
        """
        address = storage._cdata
        if self._versions.get(address) == version:
            return self.current[address]
        if address not in self._pins:
            self._pin(storage, address)
        if self._traced.get(address) != version:
            if maker is None or address in self._sources:
                self.lineage.trace(tensor, storage, version, maker)
            else:  # nearly every output: memory that nobody has seen
                self._sources[address], self._traced[address] = maker, version
        generation = self.current[address] = next(self._next)
        self._versions[address] = version  # last: a signal's handler may raise before it
        return generation

    def of_new(
        self,
        tensors: Sequence[torch.Tensor],
        storages: Sequence[torch.UntypedStorage],
        addresses: Sequence[int],
        versions: Sequence[int],
        maker: Source | None = None,
    ) -> list[int]:
        """Return generations for storages that were not observed in this step, all different and on one device."""
        for address, storage in zip(addresses, storages, strict=True):
            if address not in self._pins:  # else it was there when an earlier step ended
                self._pins[address] = storage._weak_ref()
        self._trace_all(tensors, storages, addresses, versions, maker)
        self._versions.update(zip(addresses, versions, strict=True))
        generations = list(islice(self._next, len(addresses)))
        self.current.update(zip(addresses, generations, strict=True))
        if device_for(storages[0].device).is_host:
            self._pinned_bytes += sum(map(torch.UntypedStorage.nbytes, storages))
            if self._pinned_bytes > _UNSWEPT:
                self._sweep_if_due()
        return generations

    def advance(
        self,
        tensors: Sequence[torch.Tensor],
        storages: Sequence[torch.UntypedStorage],
        addresses: Sequence[int],
        versions: Sequence[int],
        maker: Source | None = None,
    ) -> None:
        """Note at which versions pinned storages were observed; those at another version get a new generation."""
        self._trace_all(tensors, storages, addresses, versions, maker)
        before = map(self._versions.get, addresses)
        moved = [address for address, last, now in zip(addresses, before, versions, strict=True) if last != now]
        self._versions.update(zip(addresses, versions, strict=True))
        self.current.update(zip(moved, self._next, strict=False))

    def invalidate(self, address: int) -> None:
        """Give a storage a new generation; one that was never observed has nothing to invalidate."""
        if address in self.current:
            self.current[address] = next(self._next)

    def invalidate_all(self) -> None:
        """Give every storage a new generation."""
        for address in self.current:
            self.current[address] = next(self._next)

    def trace(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, version: int, maker: Source | None = None
    ) -> Source:
        """Return the source of a tensor whose storage need not be cached."""
        address = storage._cdata
        if address not in self._pins:
            self._pin(storage, address)
        return self.lineage.trace(tensor, storage, version, maker)

    def write(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, version: int, writer: Source, *, surely: bool
    ) -> None:
        """Note who wrote a storage, or may have."""
        address = storage._cdata
        if address not in self._pins:
            self._pin(storage, address)
        self.lineage.write(tensor, storage, version, writer, surely=surely)

    def overwrite(self, tensor: torch.Tensor, storage: torch.UntypedStorage, version: int, writer: Source) -> None:
        """Give a storage a new generation; a tensor at a new version was written wholly."""
        address = storage._cdata
        if address in self.current:
            self.current[address] = next(self._next)
        if self._traced.get(address) == version:
            return
        known = self._sources.get(address)
        if known is not None and not known.is_base and not known.parts and tensor.nbytes == storage.nbytes():
            self._sources[address], self._traced[address] = writer, version
        else:
            self.write(tensor, storage, version, writer, surely=True)

    def overwrite_all(
        self,
        tensors: Sequence[torch.Tensor],
        storages: Sequence[torch.UntypedStorage],
        versions: Sequence[int],
        writer: Source,
    ) -> None:
        """Give storages new generations: their tensors were written wholly, whatever their versions say."""
        addresses = [storage._cdata for storage in storages]
        observed = [address for address in addresses if address in self.current]
        self.current.update(zip(observed, self._next, strict=False))
        if self._write_simple(tensors, storages, addresses, versions, writer):
            return
        for tensor, storage, address, version in zip(tensors, storages, addresses, versions, strict=True):
            if address in self._sources:
                self.lineage.write(tensor, storage, version, writer, surely=True)
            elif has_memory(tensor):
                self.write(tensor, storage, version, writer, surely=True)

    def never_cache(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, version: int, *, until_returned: bool
    ) -> None:
        """From now on this storage may change without a new version; with `until_returned` until `cache_again`."""
        address, lineage = storage._cdata, self.lineage
        if not until_returned:
            self._lent.pop(address, None)
        elif address in self._lent or address not in self.uncacheable:
            self._lent[address] = self._lent.get(address, 0) + 1
        lineage.sources[address] = lineage.exposed(self.trace(tensor, storage, version))
        self.uncacheable.add(address)
        self.current[address] = next(self._next)

    def cache_again(self, address: int) -> None:
        """Let a storage be cached that a transfer has returned, if nothing else may write it unseen."""
        if address in self._lent:
            self._lent[address] -= 1
            if not self._lent[address]:
                del self._lent[address]
                self.uncacheable.discard(address)

    def end_step(self, step: int) -> None:
        """Forget everything but the lineage of storages that are still there."""
        self.current.clear()
        self.uncacheable.clear()
        self._lent.clear()
        self._versions.clear()
        self._drop_freed()
        self.lineage.end_step(step)

    def forget_all(self) -> None:
        """Forget every storage, and where it came from: the recording is over."""
        self._unpin(list(self._pins))
        for table in (self._versions, self.current, self._sources, self._traced, self._lent):
            table.clear()
        self.uncacheable.clear()

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
        self._drop_freed()

    def _drop_freed(self) -> None:
        self._pinned_bytes = 0
        expired = torch.UntypedStorage._expired
        self._unpin([address for address, pin in self._pins.items() if expired(pin)])

    def _unpin(self, addresses: Sequence[int]) -> None:
        """Forget storages; the next ones at these addresses are others."""
        free: Callable[[int], None] = torch.UntypedStorage._free_weak_ref
        _exhaust(map(free, map(self._pins.pop, addresses)))
        for table in (self._versions, self.current, self._sources, self._traced, self._lent):
            if table:  # some are empty when a step ends
                _exhaust(map(table.pop, addresses, repeat(None)))
        self.uncacheable.difference_update(addresses)

    def _trace_all(
        self,
        tensors: Sequence[torch.Tensor],
        storages: Sequence[torch.UntypedStorage],
        addresses: Sequence[int],
        versions: Sequence[int],
        maker: Source | None,
    ) -> None:
        """Trace the tensors of a list that are not known at their versions."""
        known_at = list(map(self._traced.get, addresses))
        if known_at == list(versions):
            return
        if maker is not None and self._sources.keys().isdisjoint(addresses):  # memory that nobody has seen
            self._sources.update(dict.fromkeys(addresses, maker))
            self._traced.update(zip(addresses, versions, strict=True))
            return
        for place, version in enumerate(versions):
            if known_at[place] != version:
                self.lineage.trace(tensors[place], storages[place], version, maker)

    def _write_simple(
        self,
        tensors: Sequence[torch.Tensor],
        storages: Sequence[torch.UntypedStorage],
        addresses: Sequence[int],
        versions: Sequence[int],
        writer: Source,
    ) -> bool:
        """Note who wrote all of some storages without a name, as an optimizer's state; False where some are others."""
        for known in set(map(self._sources.get, addresses)):
            if known is None or known.parts or known.is_base:
                return False
        if list(map(_nbytes, tensors)) != list(map(torch.UntypedStorage.nbytes, storages)):
            return False
        self._sources.update(dict.fromkeys(addresses, writer))
        self._traced.update(zip(addresses, versions, strict=True))
        return True
