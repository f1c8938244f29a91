"""A pool of buffers for copies of tensors, which come and go by the hundred while a step lasts.

Not from the heap: torch asks it for aligned memory, which does not fit where such memory was
freed before, so that copies would pile up although each is freed. Buffers are used again,
which also saves the system from clearing new pages for every copy.
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
_MOST_FREE_BYTES = 128 << 20


class BufferPool:
    """Gives out memory, and takes it back by itself when nobody holds it any more."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}
        self._free_bytes = 0
        self._lock = threading.RLock()  # the garbage collector may come in the middle

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a contiguous copy of a CPU tensor."""
        if not tensor.numel():
            return torch.empty(tensor.shape, dtype=tensor.dtype)
        buffer = torch.from_numpy(self._take(tensor.numel() * tensor.element_size()))
        return buffer.view(tensor.dtype).view(tensor.shape).copy_(tensor)

    def _take(self, size: int) -> npt.NDArray[np.uint8]:
        if size < _SMALL:
            return np.empty(size, np.uint8)
        step = 1 << (size.bit_length() - 4)  # few different sizes, so that a buffer that comes back fits again
        whole = -(-size // step) * step
        mapped = self._reuse(whole) or _new(whole)
        array = np.frombuffer(mapped, np.uint8)
        weakref.finalize(array, self._give_back, mapped, whole).atexit = False
        return array[:size]

    def _reuse(self, size: int) -> mmap.mmap | None:
        with self._lock:
            free = self._free.get(size)
            if not free:
                return None
            self._free_bytes -= size
            return free.pop()

    def _give_back(self, mapped: Any, size: int) -> None:
        with self._lock:
            if self._free_bytes + size <= _MOST_FREE_BYTES:
                self._free.setdefault(size, []).append(mapped)
                self._free_bytes += size


def _new(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):  # else a forked worker would see what is written into it later
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
