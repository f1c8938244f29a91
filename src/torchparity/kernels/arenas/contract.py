"""The contract of arenas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torchparity.kernels.measured_rows import MeasuredRows, Reading

if TYPE_CHECKING:
    import torch

    from torchparity.kernels.layouts import Layout


class PendingReadings(Protocol):
    """The readings of one step, which a device may still be computing."""

    def __len__(self) -> int:
        """Return how many tensors were measured."""

    def wait(self) -> list[Reading]:
        """Block until the device is done; return the readings in the order of `add`. Any thread may call it, once."""

    def wait_for_rows(self) -> MeasuredRows:
        """Do as `wait`, but return the rows from which the readings follow."""


class Arena(Protocol):
    """Measures tensors of one device; a tensor added is not empty, and contiguous unless its layout is given.

    The caller keeps it alive and unchanged until `flush`. With `is_zero_copy` the arena reads a tensor
    by its address alone and calls no operator of torch.
    """

    dtypes: frozenset[str]
    is_zero_copy: bool

    def layout_of(self, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], address: int) -> Layout | None:
        """Return the layout of a strided tensor that the arena can read in place; None where it wants a copy."""

    def add(
        self, tensor: torch.Tensor, address: int, count: int, dtype: str, owner: Any, layout: Layout | None = None
    ) -> None:
        """Queue a tensor by its address and number of elements; `owner` is returned with its reading."""

    def add_all(
        self,
        tensors: Sequence[torch.Tensor],
        addresses: Sequence[int],
        counts: Sequence[int],
        dtype: str,
        owners: Sequence[Any],
    ) -> None:
        """Queue many tensors of one dtype."""

    def flush(self) -> None:
        """Measure the queue, or order it done where the device works by itself."""

    def drop(self) -> bool:
        """After a `flush` that raised: forget what is still queued; return whether there was anything."""

    def take(self) -> PendingReadings:
        """Flush, start over, and return the readings of everything added since the last time."""
