"""Writes that the measurement cache is told of: versions and addresses do not show all of them.

invalidate, overwrite, wrote      these were written, by whom and how much of them
invalidate_all                    anything may have been written
never_cache, cache_again          these may be written at any time from now on, until they are returned
changed, trace                    which were written since they were traced, and where they come from
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from torchparity.calls import PLAIN
from torchparity.recording.measuring.cache_tables import CacheTables
from torchparity.recording.measuring.geometry import has_memory, inner, is_measurable, version_of
from torchparity.recording.measuring.lineage import Source


class StorageWrites:
    """Keeps the tables of a measurement cache true; `flush` measures what is queued."""

    def __init__(self, tables: CacheTables, flush: Callable[[], None]) -> None:
        self._lock, self._generations, self._flush = tables.lock, tables.generations, flush

    def invalidate(self, *tensors: torch.Tensor, writer: Source | None = None, in_part: bool = False) -> None:
        """Invalidate the storages of these tensors: they were written without a new version.

        Or with one that an alias of the storage, which has a version counter of its own, may have had before.
        Those at a new version were written by `writer`, wholly or in part.
        """
        traced = self._generations.lineage.versions
        with self._lock:
            for tensor in map(inner, tensors):
                try:
                    storage = tensor.untyped_storage()
                except (RuntimeError, NotImplementedError):  # no storage, nothing cached
                    continue
                self._generations.invalidate(storage._cdata)
                if writer is not None and (version := version_of(tensor)) != traced.get(storage._cdata):
                    self._generations.write(tensor, storage, version, writer, surely=not in_part)

    def overwrite(self, tensor: torch.Tensor, writer: Source) -> bool:
        """Invalidate a tensor that was written wholly; False where it needs a closer look."""
        if type(tensor) not in PLAIN:
            return False
        try:
            storage, version = tensor.untyped_storage(), tensor._version
        except (RuntimeError, NotImplementedError):  # no storage, or no version
            return False
        with self._lock:
            self._generations.overwrite(tensor, storage, version, writer)
        return True

    def overwrite_all(self, tensors: Sequence[torch.Tensor], writer: Source) -> bool:
        """Invalidate the tensors of a list that were written wholly; False where they need a closer look."""
        if not set(map(type, tensors)) <= PLAIN:
            return False
        try:
            storages = list(map(torch.Tensor.untyped_storage, tensors))
            versions = [tensor._version for tensor in tensors]
        except (RuntimeError, NotImplementedError):  # no storage, or no version
            return False
        with self._lock:
            self._generations.overwrite_all(tensors, storages, versions, writer)
        return True

    def wrote(self, tensors: Iterable[torch.Tensor], writer: Source, *, surely: bool) -> None:
        """Note that these tensors were, or may have been, written, whatever their versions are."""
        with self._lock:
            for tensor in map(inner, tensors):
                if has_memory(tensor):
                    storage = tensor.untyped_storage()
                    self._generations.write(tensor, storage, version_of(tensor), writer, surely=surely)

    def invalidate_all(self) -> None:
        """Invalidate every storage: something unseen may have written any of them."""
        with self._lock:
            self._generations.invalidate_all()

    def never_cache(self, *tensors: torch.Tensor, until_returned: bool = False) -> None:
        """Measure these storages anew whenever they are observed: they may be written without a new version.

        With `until_returned` that ends with `cache_again`.
        """
        self._flush()
        with self._lock:
            for tensor in map(inner, tensors):
                if is_measurable(tensor) and has_memory(tensor):
                    storage, version = tensor.untyped_storage(), version_of(tensor)
                    self._generations.never_cache(tensor, storage, version, until_returned=until_returned)

    def cache_again(self, *tensors: torch.Tensor) -> None:
        """Take note that what these storages were lent to is done with them."""
        with self._lock:
            for tensor in map(inner, tensors):
                if is_measurable(tensor) and has_memory(tensor):
                    self._generations.cache_again(tensor.untyped_storage()._cdata)

    def changed(self, tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Return the tensors that are at another version than when they were traced, or never were."""
        traced = self._generations.lineage.versions.get
        return [
            tensor
            for tensor in map(inner, tensors)
            if has_memory(tensor) and traced(tensor.untyped_storage()._cdata) != version_of(tensor)
        ]

    def trace(self, tensors: Iterable[torch.Tensor], maker: Source | None = None) -> list[Source]:
        """Return the sources of tensors that need not be observed; what is new among them is by `maker`."""
        with self._lock:
            return [
                self._generations.trace(tensor, tensor.untyped_storage(), version_of(tensor), maker)
                for tensor in map(inner, tensors)
                if has_memory(tensor)
            ]
