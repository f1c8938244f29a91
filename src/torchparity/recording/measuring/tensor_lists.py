"""Lists of many tensors, as optimizers hand them over: looked at with a few calls for all instead of a few for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import torch

from torchparity.recording.measuring.arenas import ArenaSlot
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.observed import Measurement, ObservedList, ObservedTensor

FEWEST = 8  # below this, one by one is as fast
_address = attrgetter("_cdata")
_version = attrgetter("_version")
_dtype = attrgetter("dtype")
_device = attrgetter("device")
_requires_grad = attrgetter("requires_grad")
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


class _Look(NamedTuple):
    """A list of tensors in columns; equal where nothing but versions may differ."""

    storages: tuple[int, ...]
    addresses: tuple[int, ...]
    sizes: tuple[torch.Size, ...]
    strides: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    need_gradients: tuple[bool, ...]
    are_negative: tuple[bool, ...]


class _Known(msgspec.Struct):
    """A list that was seen before: what it looked like at each version and number."""

    first: ObservedList
    by_version: dict[Any, ObservedList]


class ListCache:
    """Sees whole lists; a list seen for the second time differs from the first in versions and numbers alone."""

    def __init__(self, measurements: MeasurementCache) -> None:
        self._measurements = measurements
        self._known: dict[Any, _Known] = {}

    def observe(self, tensors: Sequence[torch.Tensor]) -> ObservedList | None:
        """Return what is known of a list, measuring it if need be; None where it must be seen one by one."""
        if not self._measurements.takes_lists:
            return None
        try:
            memories = list(map(torch.Tensor.untyped_storage, tensors))
            versions = tuple(map(_version, tensors))
            look = _Look(
                tuple(map(_address, memories)),
                tuple(map(torch.Tensor.data_ptr, tensors)),
                tuple(map(torch.Tensor.size, tensors)),
                tuple(map(torch.Tensor.stride, tensors)),
                tuple(map(_dtype, tensors)),
                tuple(map(_requires_grad, tensors)),
                tuple(map(torch.Tensor.is_neg, tensors)),
            )
        except (RuntimeError, NotImplementedError):
            return None
        storages, generations = look.storages, self._measurements.generations
        if not generations.trusts(storages):
            return None
        known = self._known.get(look)
        if known is None or not generations.holds(storages):
            return self._first_sight(tensors, look, versions, memories)
        found = known.by_version.get((versions, tuple(map(generations.numbers.get, storages))))
        if found is None:
            found = self._measured_again(tensors, look, known)
            self._measurements.moved_on(storages, versions)
            known.by_version[versions, tuple(map(generations.numbers.get, storages))] = found
        return found

    def forget(self) -> None:
        self._known.clear()

    def _first_sight(
        self,
        tensors: Sequence[torch.Tensor],
        look: _Look,
        versions: tuple[int, ...],
        memories: Sequence[torch.UntypedStorage],
    ) -> ObservedList:
        numbers = self._measurements.generations.numbers
        with self._measurements.lock:
            new = None
            if numbers.keys().isdisjoint(look.storages):  # what was seen before is not measured twice
                new = self._all_new(tensors, look, versions, memories)
            seen = ObservedList(new or list(map(self._measurements._observe, tensors)))
        if len({entry.arena for entry in seen.tensors}) == 1 and seen.tensors[0].arena is not None:
            self._known[look] = _Known(seen, {(versions, tuple(map(numbers.get, look.storages))): seen})
        return seen

    def _all_new(
        self,
        tensors: Sequence[torch.Tensor],
        look: _Look,
        versions: tuple[int, ...],
        memories: Sequence[torch.UntypedStorage],
    ) -> list[ObservedTensor] | None:
        """Let tensors of memories that nobody saw wait together; None where one must be seen alone."""
        counts = list(map(torch.Tensor.numel, tensors))
        offsets = [int(tensor.storage_offset()) for tensor in tensors]
        arena = self._arena_for_all(tensors, look, counts)
        if arena is None or not _lie_within(memories, offsets, counts, arena.size):
            return None
        dtype, shapes = look.dtypes[0], list(map(tuple, look.sizes))
        seen = _unmeasured(dtype, shapes, look.need_gradients, arena, counts)
        self._measurements.measure_all(tensors, look.addresses, seen)
        numbers = self._measurements.generations.number_new(memories, look.storages, versions)
        no = repeat(False)
        keys = zip(numbers, versions, offsets, shapes, look.strides, repeat(dtype), look.need_gradients, no, no)
        self._measurements.remember_all(list(keys), seen)
        return seen

    def _arena_for_all(self, tensors: Sequence[torch.Tensor], look: _Look, counts: Sequence[int]) -> ArenaSlot | None:
        """Return what measures all of them where they lie, if one arena can."""
        devices = set(map(_device, tensors))
        is_usual = (
            len(devices) == len(set(look.dtypes)) == 1
            and len(set(look.storages)) == len(tensors)
            and all(counts)
            and all(look.addresses)
            and not any(look.are_negative)
            and all(map(torch.Tensor.is_contiguous, tensors))
            and not any(map(_is_wrapped, tensors))
        )
        return self._measurements.arena_for(look.dtypes[0], devices.pop()) if is_usual else None

    def _measured_again(self, tensors: Sequence[torch.Tensor], look: _Look, known: _Known) -> ObservedList:
        first = known.first.tensors
        shapes, counts = [entry.shape for entry in first], [entry.count for entry in first]
        again = _unmeasured(first[0].dtype, shapes, look.need_gradients, first[0].arena, counts)
        self._measurements.measure_all(tensors, look.addresses, again)
        return ObservedList(again)


def _unmeasured(
    dtype: torch.dtype,
    shapes: Sequence[tuple[int, ...]],
    need_gradients: Sequence[bool],
    arena: ArenaSlot,
    counts: Sequence[int],
) -> list[ObservedTensor]:
    measurements = [Measurement() for _ in counts]
    every = zip(repeat(dtype), shapes, need_gradients, measurements, repeat(None), repeat(arena), counts)
    return [ObservedTensor(*each) for each in every]


def _lie_within(
    memories: Sequence[torch.UntypedStorage], offsets: Sequence[int], counts: Sequence[int], size: int
) -> bool:
    """Tell whether memories have what their tensors claim, and no file or NumPy can change them unseen."""
    sizes = map(torch.UntypedStorage.nbytes, memories)
    return all(map(torch.UntypedStorage.resizable, memories)) and all(
        held >= (offset + count) * size for held, offset, count in zip(sizes, offsets, counts, strict=True)
    )
