"""A tensor that several items hold: handed over once, stored once, let go as soon as it is."""

from __future__ import annotations

from collections.abc import Callable

from torchparity.records import Location
from torchparity.tensors import HostTensor


class SharedTensor:
    """The values of one tensor for any number of items of one step.

    The writer stores them for the first item that comes along, or when it is told to, and
    remembers where; from then on the values themselves are gone from memory. Values that a
    device is still copying are there when `ready` returns. Where there is no space for them,
    `is_left_out` says so and the items have none.
    """

    __slots__ = ("dtype", "is_counted", "is_left_out", "nbytes", "place", "ready", "shape", "values")

    def __init__(self, values: HostTensor, ready: Callable[[], None] | None = None) -> None:
        self.values: HostTensor | None = values
        self.ready = ready
        self.dtype, self.shape, self.nbytes = values.dtype, values.shape, values.nbytes
        self.place: tuple[str, Location | None] | None = None
        self.is_counted = self.is_left_out = False

    def queue_bytes(self) -> int:
        """Return what this adds to a queue: its size the first time, nothing later."""
        counted, self.is_counted = self.is_counted, True
        return 0 if counted else self.nbytes

    def leave_out(self) -> None:
        """Let go of the values: nobody will write them."""
        self.values, self.is_left_out = None, True
