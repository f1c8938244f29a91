"""`enable_dataloader`: every batch that a DataLoader gives begins a step."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from torch.utils.data.dataloader import _BaseDataLoaderIter


class LoaderWatcher:
    """Wraps the iterators of every DataLoader while attached; fetching a batch is not part of a step."""

    def __init__(self, *, begin_batch: Callable[[], None], end_batch: Callable[[], None]) -> None:
        self._begin_batch, self._end_batch = begin_batch, end_batch
        self._has_batch = False
        self._original: Callable[[Any], Any] | None = None
        self._process = os.getpid()

    def attach(self) -> None:
        if self._original is None:
            self._original = _BaseDataLoaderIter.__next__
            _BaseDataLoaderIter.__next__ = self._watched(self._original)  # type: ignore[assignment, method-assign]

    def detach(self) -> None:
        if self._original is not None:
            _BaseDataLoaderIter.__next__ = self._original  # type: ignore[assignment, method-assign]
            self._original = None

    def _watched(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def next_batch(loader: Any) -> Any:
            if os.getpid() != self._process:
                return original(loader)
            if self._has_batch:
                self._has_batch = False
                self._end_batch()
            batch = original(loader)
            self._has_batch = True
            self._begin_batch()
            return batch

        return next_batch
