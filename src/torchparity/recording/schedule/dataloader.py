"""`enable_dataloader`: every batch that a DataLoader gives begins a step."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from torch.utils.data.dataloader import _BaseDataLoaderIter

from torchparity.calls import Patches


class LoaderInterceptor:
    """Wraps the iterators of every DataLoader while attached; fetching a batch is not part of a step."""

    def __init__(self, *, begin_batch: Callable[[], None], end_batch: Callable[[], None]) -> None:
        self._begin_batch, self._end_batch = begin_batch, end_batch
        self._has_batch = False
        self._patches = Patches()
        self._process = os.getpid()

    def attach(self) -> None:
        if not self._patches:
            self._patches.put(_BaseDataLoaderIter, "__next__", self._intercepted)

    def detach(self) -> None:
        self._patches.end()

    def _intercepted(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def next_batch(loader: Any) -> Any:
            if not self._patches or os.getpid() != self._process:  # another recording may have wrapped us
                return original(loader)
            if self._has_batch:
                self._has_batch = False
                self._end_batch()
            batch = original(loader)
            self._has_batch = True
            self._begin_batch()
            return batch

        return next_batch
