"""Lists of many tensors, as optimizers hand them over: looked at with a few calls for all instead of a few for each."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import torch

from torchparity.capture._meter import Meter
from torchparity.capture._seen import Measurement, SeenList, SeenTensor

FEWEST = 8  # below this, one by one is as fast
_address = attrgetter("_cdata")
_version = attrgetter("_version")
_dtype = attrgetter("dtype")
_requires_grad = attrgetter("requires_grad")


class _Known(msgspec.Struct):
    """A list whose tensors were seen one by one before: what it looked like at each version and number."""

    first: SeenList
    by_version: dict[Any, SeenList]


class ListMeter:
    """Sees whole lists; a list seen for the second time differs from the first in versions and numbers alone."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._known: dict[Any, _Known] = {}

    def see(self, tensors: Sequence[torch.Tensor]) -> SeenList | None:
        """Return what is known of a list, measuring it if need be; None where it must be seen one by one."""
        if not self._meter.takes_lists:
            return None
        try:
            storages = tuple(map(_address, map(torch.Tensor.untyped_storage, tensors)))
            versions = tuple(map(_version, tensors))
            look = (
                storages,
                tuple(map(torch.Tensor.data_ptr, tensors)),
                tuple(map(torch.Tensor.size, tensors)),
                tuple(map(torch.Tensor.stride, tensors)),
                tuple(map(_dtype, tensors)),
                tuple(map(_requires_grad, tensors)),
                tuple(map(torch.Tensor.is_neg, tensors)),
            )
        except (RuntimeError, NotImplementedError):
            return None
        identities = self._meter.identities
        if not identities.trusts(storages):
            return None
        known = self._known.get(look)
        if known is None or not identities.holds(storages):
            return self._first_sight(tensors, look, versions)
        found = known.by_version.get((versions, tuple(map(identities.numbers.get, storages))))
        if found is None:
            found = self._measured_again(tensors, known)
            self._meter.moved_on(storages, versions)
            known.by_version[versions, tuple(map(identities.numbers.get, storages))] = found
        return found

    def forget(self) -> None:
        self._known.clear()

    def _first_sight(self, tensors: Sequence[torch.Tensor], look: Any, versions: Any) -> SeenList:
        """See each tensor alone, so that one that was seen before is not measured twice."""
        seen = SeenList(list(map(self._meter.see, tensors)))
        if all(entry.gauge is not None for entry in seen.tensors):
            numbers = tuple(map(self._meter.identities.numbers.get, look[0]))
            self._known[look] = _Known(seen, {(versions, numbers): seen})
        return seen

    def _measured_again(self, tensors: Sequence[torch.Tensor], known: _Known) -> SeenList:
        again = [
            SeenTensor(entry.dtype, entry.shape, entry.requires_grad, Measurement(), None, entry.gauge, entry.count)
            for entry in known.first.tensors
        ]
        self._meter.measure_all(tensors, again)
        return SeenList(again)
