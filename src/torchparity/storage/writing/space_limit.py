"""The limits of a run's size: `max_bytes`, and the free space of the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from torchparity.text import readable_bytes

_LARGEST_MARGIN = 1 << 30
_MARGIN_SHARE = 20  # the margin of a small disk is its size divided by this
_SMALL = 4 << 30  # with less free space, a recording of tensors begins with a warning
_LOOK_EVERY = 64 << 20  # most bytes between two checks of the disk, which other processes fill too
_LOOK_SHARE = 8  # checks become more frequent as the space runs out


class Usage(Protocol):
    """The result of `shutil.disk_usage`, as far as it is needed."""

    @property
    def total(self) -> int: ...

    @property
    def free(self) -> int: ...


DiskUsage = Callable[[Path], Usage]


class SpaceLimit:
    """Decides whether the values of a tensor are written; after the first refusal all others are refused too.

    `finished_bytes` is the size of the finished steps. `reason` says why no more values are written, and
    is None as long as they are.
    """

    def __init__(self, folder: Path, max_bytes: int | None = None, disk_usage: DiskUsage | None = None) -> None:
        self._folder, self._max_bytes, self._disk_usage = folder, max_bytes, disk_usage
        self._until_next_look = 0
        self.finished_bytes = 0
        self.reason: str | None = None

    def admits(self, nbytes: int, *, step_bytes: int, waiting_bytes: int) -> bool:
        """Tell whether a tensor of `nbytes` may be written.

        `step_bytes` is the size of the current step so far, of which `waiting_bytes` are not on disk yet.
        """
        if self.reason is None:
            self.reason = self._beyond_maximum(step_bytes + nbytes) or self._disk_too_full(nbytes, waiting_bytes)
        return self.reason is None

    def warning(self) -> str | None:
        """Return a sentence for the beginning of a recording where the disk has clearly little space."""
        usage = self._usage()
        if usage is None:
            return None
        if usage.free - _margin(usage.total) < (self._max_bytes or _SMALL):
            wanted = "" if self._max_bytes is None else f", and max_bytes is {readable_bytes(self._max_bytes)}"
            return (
                f"the disk of {self._folder} has {readable_bytes(usage.free)} free{wanted}; "
                f"tensors are written until {readable_bytes(_margin(usage.total))} are left."
            )
        return None

    def _beyond_maximum(self, step_bytes: int) -> str | None:
        if self._max_bytes is None or self.finished_bytes + step_bytes <= self._max_bytes:
            return None
        return f"max_bytes of {readable_bytes(self._max_bytes)} is reached"

    def _disk_too_full(self, nbytes: int, waiting_bytes: int) -> str | None:
        self._until_next_look -= nbytes
        if self._disk_usage is None or self._until_next_look >= 0:
            return None
        usage = self._usage()
        if usage is None:
            return None
        room = usage.free - _margin(usage.total) - waiting_bytes - nbytes
        if room < 0:
            free, margin = readable_bytes(usage.free), readable_bytes(_margin(usage.total))
            return f"the disk has {free} left, of which {margin} are kept free"
        self._until_next_look = min(_LOOK_EVERY, room // _LOOK_SHARE)
        return None

    def _usage(self) -> Usage | None:
        """Return the size of the disk; None where that is unknown."""
        if self._disk_usage is None:
            return None
        try:
            usage = self._disk_usage(self._folder)
        except OSError:
            return None  # writing will fail with the reason
        return usage if usage.total > 0 else None


def _margin(total: int) -> int:
    return min(_LARGEST_MARGIN, total // _MARGIN_SHARE)
