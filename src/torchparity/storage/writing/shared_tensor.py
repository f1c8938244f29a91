"""A tensor that several items share: its values are stored once and then released from memory."""

from __future__ import annotations

from collections.abc import Callable

from torchparity.records import Location
from torchparity.tensors import HostTensor


class SharedTensor:
    """The values of one tensor for any number of items of one step.

    The writer stores them with the first item, or when it is told to, and keeps their location;
    the values themselves are released then. While a device still copies the values, `ready`
    blocks until they are complete. `is_left_out` means that there was no space to store them.
    """

    __slots__ = ("dtype", "is_counted", "is_left_out", "nbytes", "place", "ready", "shape", "values")

    def __init__(self, values: HostTensor, ready: Callable[[], None] | None = None) -> None:
        self.values: HostTensor | None = values
        self.ready = ready
        self.dtype, self.shape, self.nbytes = values.dtype, values.shape, values.nbytes
        self.place: tuple[str, Location | None] | None = None
        self.is_counted = self.is_left_out = False

    def queue_bytes(self) -> int:
        """Return the bytes that this adds to a queue: its size the first time, 0 later."""
        counted, self.is_counted = self.is_counted, True
        return 0 if counted else self.nbytes

    def leave_out(self) -> None:
        """Release the values, which will not be written."""
        self.values, self.is_left_out = None, True
