"""A cache of whole lists of tensors, as optimizers pass them: a few calls per list instead of a few per tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat, starmap
from operator import attrgetter, le
from typing import Any, NamedTuple

import msgspec
import torch

from torchparity.calls import PLAIN
from torchparity.recording.measuring.arenas import ArenaSlot
from torchparity.recording.measuring.cache_tables import CacheTables
from torchparity.recording.measuring.geometry import is_wrapped
from torchparity.recording.measuring.keys import Extent, values_keys, view_keys
from torchparity.recording.measuring.lineage import Source
from torchparity.recording.measuring.measurer import Measurer
from torchparity.recording.measuring.observed import Measurement, ObservedList, ObservedTensor

FEWEST = 8  # below this, one by one is as fast
_address = attrgetter("_cdata")
_version = attrgetter("_version")
_dtype = attrgetter("dtype")
_device = attrgetter("device")
_requires_grad = attrgetter("requires_grad")
Versions = tuple[int, ...]
Generations = tuple[int | None, ...]


class _ListKey(NamedTuple):
    """A list of tensors in columns; equal for two lists that differ at most in versions and generations."""

    storages: tuple[int, ...]
    addresses: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    need_gradients: tuple[bool, ...]
    are_negative: tuple[bool, ...]

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor], storages: Sequence[torch.UntypedStorage]) -> _ListKey:
        return cls(
            tuple(map(_address, storages)),
            tuple(map(torch.Tensor.data_ptr, tensors)),
            tuple(map(torch.Tensor.size, tensors)),
            tuple(map(torch.Tensor.stride, tensors)),
            tuple(map(_dtype, tensors)),
            tuple(map(_requires_grad, tensors)),
            tuple(map(torch.Tensor.is_neg, tensors)),
        )


class _CachedList(msgspec.Struct):
    """A list that was observed before, at each of its versions and generations."""

    key: _ListKey
    first: ObservedList
    by_version: dict[tuple[Versions, Generations], ObservedList]


class ListCache:
    """Observes lists of plain tensors; shares tables and measurer with the measurement cache, its owner."""

    def __init__(self, tables: CacheTables, measurer: Measurer, observe: Callable[..., ObservedTensor]) -> None:
        self._tables, self._measurer, self._observe_alone = tables, measurer, observe
        self._lists: dict[tuple[int, ...], _CachedList] = {}  # by their storages

    def observe(self, tensors: Sequence[Any], maker: Source | None = None) -> ObservedList | None:
        """Return the observed list, queued on a miss; None where its entries must be observed one by one."""
        measurer = self._measurer
        if not measurer.options.allows_zero_copy or measurer.arenas.has_broken or not set(map(type, tensors)) <= PLAIN:
            return None
        try:
            storages = list(map(torch.Tensor.untyped_storage, tensors))
            versions = tuple(map(_version, tensors))
            key = _ListKey.of(tensors, storages)
        except (RuntimeError, NotImplementedError):
            return None
        generations = self._tables.generations
        if generations.uncacheable and not generations.uncacheable.isdisjoint(key.storages):
            return None
        cached = self._lists.get(key.storages)
        current = self._generations_of(key)
        if cached is None or cached.key != key or None in current:  # a storage that was freed has no generation
            return self._observe_new(tensors, key, versions, storages, maker)
        observed = cached.by_version.get((versions, current))
        if observed is None:
            with self._tables.lock:
                generations.advance(tensors, storages, key.storages, versions, maker)
            observed = self._observe_again(tensors, key, cached)
            cached.by_version[versions, self._generations_of(key)] = observed
        return observed

    def clear(self) -> None:
        """Forget the step."""
        self._lists.clear()

    def _generations_of(self, key: _ListKey) -> Generations:
        return tuple(map(self._tables.generations.current.get, key.storages))

    def _observe_new(
        self,
        tensors: Sequence[torch.Tensor],
        key: _ListKey,
        versions: Versions,
        storages: Sequence[torch.UntypedStorage],
        maker: Source | None,
    ) -> ObservedList:
        with self._tables.lock:
            if self._tables.generations.current.keys().isdisjoint(key.storages):
                together = self._queue_new(tensors, key, versions, storages, maker)
            else:
                together = self._observed_before(tensors, key, versions)
            observed = ObservedList(together or tuple([self._observe_alone(tensor, maker=maker) for tensor in tensors]))
        if len({entry.arena for entry in observed.tensors}) == 1 and observed.tensors[0].arena is not None:
            by_version = {(versions, self._generations_of(key)): observed}
            shapes = tuple([entry.shape for entry in observed.tensors])  # Sizes would be walked by the collector
            self._lists[key.storages] = _CachedList(key._replace(sizes=shapes), observed, by_version)
        return observed

    def _observed_before(
        self, tensors: Sequence[torch.Tensor], key: _ListKey, versions: Versions
    ) -> tuple[ObservedTensor, ...] | None:
        """Return tensors each of which was observed alone; None where one was not, or needs a closer look."""
        generations, dtype = self._generations_of(key), key.dtypes[0]
        if len(set(key.dtypes)) > 1 or dtype.is_complex or any(key.are_negative):
            return None
        shapes, offsets = map(tuple, key.sizes), _offsets(tensors)
        of_views = view_keys(generations, versions, offsets, shapes, key.strides, dtype, key.need_gradients)
        try:
            return tuple(map(self._tables.observed.__getitem__, of_views))
        except KeyError:
            return None

    def _queue_new(
        self,
        tensors: Sequence[torch.Tensor],
        key: _ListKey,
        versions: Versions,
        storages: Sequence[torch.UntypedStorage],
        maker: Source | None,
    ) -> tuple[ObservedTensor, ...] | None:
        """Queue tensors of storages that were never observed together; None where one needs a closer look."""
        counts = list(map(torch.Tensor.numel, tensors))
        offsets = _offsets(tensors)
        arena = self._arena_for_all(tensors, key, counts)
        if arena is None or not _lie_within(storages, offsets, counts, arena.itemsize):
            return None
        shapes = list(map(tuple, key.sizes))
        generations = self._tables.generations.of_new(tensors, storages, key.storages, versions, maker)
        observed = self._observed_in_place(key, shapes, arena, counts)
        self._queue(tensors, key, observed)
        self._remember(key, generations, versions, offsets, observed)
        return observed

    def _remember(
        self,
        key: _ListKey,
        generations: Sequence[int],
        versions: Sequence[int],
        offsets: Sequence[int],
        observed: Sequence[ObservedTensor],
    ) -> None:
        """Cache each tensor, so that it is a hit when it is observed alone."""
        dtype, shapes = key.dtypes[0], [entry.shape for entry in observed]
        extents: Sequence[Extent] = [entry.count for entry in observed]
        if self._measurer.options.by_shape:
            extents = list(zip(shapes, key.strides, strict=True))
        of_views = view_keys(generations, versions, offsets, shapes, key.strides, dtype, key.need_gradients)
        of_values = values_keys(generations, offsets, dtype, extents)
        measurements = [entry.measurement for entry in observed if entry.measurement is not None]
        self._tables.observed.update(zip(of_views, observed, strict=True))
        self._tables.measurements.update(zip(of_values, measurements, strict=True))

    def _arena_for_all(self, tensors: Sequence[torch.Tensor], key: _ListKey, counts: Sequence[int]) -> ArenaSlot | None:
        """Return the arena that measures all of them without a copy, None where no single one can."""
        devices = set(map(_device, tensors))
        is_usual = (
            len(devices) == len(set(key.dtypes)) == 1
            and len(set(key.storages)) == len(tensors)
            and all(counts)
            and all(key.addresses)
            and not any(key.are_negative)
            and all(map(torch.Tensor.is_contiguous, tensors))
            and not any(map(is_wrapped, tensors))
        )
        return self._measurer.arenas.zero_copy_slot(key.dtypes[0], devices.pop()) if is_usual else None

    def _observe_again(self, tensors: Sequence[torch.Tensor], key: _ListKey, cached: _CachedList) -> ObservedList:
        """Queue a list whose storages were written since it was observed."""
        first = cached.first.tensors
        shapes, counts = [entry.shape for entry in first], [entry.count for entry in first]
        observed = self._observed_in_place(key, shapes, first[0].arena, counts)
        self._queue(tensors, key, observed)
        return ObservedList(observed)

    def _queue(self, tensors: Sequence[torch.Tensor], key: _ListKey, observed: Sequence[ObservedTensor]) -> None:
        arena: ArenaSlot = observed[0].arena
        with self._tables.lock:
            self._measurer.queued += tensors
            counts, owners = [entry.count for entry in observed], [entry.measurement for entry in observed]
            arena.add_all(tensors, key.addresses, counts, arena.dtype, owners)

    def _observed_in_place(
        self, key: _ListKey, shapes: Sequence[tuple[int, ...]], arena: ArenaSlot, counts: Sequence[int]
    ) -> tuple[ObservedTensor, ...]:
        measurements = [Measurement() for _ in counts]
        sources = map(self._tables.generations.lineage.sources.get, key.storages)
        dtypes, layouts, arenas = repeat(key.dtypes[0]), repeat(None), repeat(arena)
        columns = zip(dtypes, shapes, key.need_gradients, measurements, layouts, arenas, counts, sources, strict=False)
        return tuple(starmap(ObservedTensor, columns))


def _offsets(tensors: Sequence[torch.Tensor]) -> list[int]:
    return list(map(torch.Tensor.storage_offset, tensors))  # type: ignore[arg-type]


def _lie_within(
    storages: Sequence[torch.UntypedStorage], offsets: Sequence[int], counts: Sequence[int], itemsize: int
) -> bool:
    """Tell whether storages are as large as their tensors claim, and not shared with a file or NumPy."""
    needed = [(offset + count) * itemsize for offset, count in zip(offsets, counts, strict=True)]
    return all(map(torch.UntypedStorage.resizable, storages)) and all(
        map(le, needed, map(torch.UntypedStorage.nbytes, storages))
    )
