"""Memory for copies of tensors, which come and go by the hundred while a step lasts.

Not from the heap: torch asks it for aligned memory, which does not fit where such memory
was freed before, so that copies would pile up although each is let go. BufferPool are given
out again, which also saves the system from clearing new pages for every copy.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_SMALL = 1 << 16  # below this the heap does no harm
_MOST_KEPT = 128 << 20


class BufferPool:
    """Gives out memory and takes it back by itself when nobody holds what was given out."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}
        self._free_bytes = 0
        self._lock = threading.RLock()  # the garbage collector may come in the middle

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a contiguous copy of a CPU tensor."""
        if not tensor.numel():
            return torch.empty(tensor.shape, dtype=tensor.dtype)
        room = torch.from_numpy(self._take(tensor.numel() * tensor.element_size()))
        return room.view(tensor.dtype).view(tensor.shape).copy_(tensor)

    def _take(self, size: int) -> npt.NDArray[np.uint8]:
        if size < _SMALL:
            return np.empty(size, np.uint8)
        step = 1 << (size.bit_length() - 4)  # few sizes, so that what comes back fits again
        whole = -(-size // step) * step
        room = self._used_before(whole) or _new(whole)
        found = np.frombuffer(room, np.uint8)
        weakref.finalize(found, self._give_back, room, whole).atexit = False
        return found[:size]

    def _used_before(self, size: int) -> mmap.mmap | None:
        with self._lock:
            rooms = self._free.get(size)
            if not rooms:
                return None
            self._free_bytes -= size
            return rooms.pop()

    def _give_back(self, room: Any, size: int) -> None:
        with self._lock:
            if self._free_bytes + size <= _MOST_KEPT:
                self._free.setdefault(size, []).append(room)
                self._free_bytes += size


def _new(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):  # else a forked worker would see what is written into it later
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
