"""Arenas measure many tensors with few launches: the contract, and the arena of each kind.

    arena.add(...) or arena.add_all(...)      queue tensors
    arena.flush()                             measure the queue; from here on the tensors may change or be freed
    pending = arena.take()                    end a step: the arena starts over
    pending.wait()                            block until the device is done; return the readings

`host` measures float32 in host memory with numba, `cuda` most dtypes on a CUDA device with Triton,
`portable` any device with torch's own operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torchparity.records import Statistics

if TYPE_CHECKING:
    import torch

Reading = tuple[Any, Statistics, str | None]  # the owner given to `add`, its statistics, its checksum


class PendingReadings(Protocol):
    """The readings of one step, which a device may still be computing."""

    def __len__(self) -> int:
        """Return how many tensors were measured."""

    def wait(self) -> list[Reading]:
        """Block until the device is done; return the readings in the order of `add`. Any thread may call it, once."""


class Arena(Protocol):
    """Measures tensors of one device; a tensor added is dense in memory and not empty.

    The caller keeps it alive and unchanged until `flush`. With `is_zero_copy` the arena reads a tensor
    by its address alone and calls no operator of torch.
    """

    dtypes: frozenset[str]
    is_zero_copy: bool

    def add(self, tensor: torch.Tensor, address: int, count: int, dtype: str, owner: Any) -> None:
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


def host_arena(*, exact: bool, checksums: bool) -> Arena:
    """Return the arena for float32 in host memory."""
    from torchparity.kernels.arenas.host import HostArena  # loads the compiler

    return HostArena(exact=exact, checksums=checksums)


def cuda_arena(device: torch.device, *, checksums: bool) -> Arena:
    """Return the arena of a CUDA device; raise where this machine cannot compile or launch its kernel."""
    from torchparity.kernels.arenas.cuda import CudaArena  # Triton takes a second to import

    arena = CudaArena(device, checksums=checksums)
    arena.try_out()
    return arena


def portable_arena(synchronize: Callable[[], object], *, has_float64: bool = True) -> Arena:
    """Return the arena that measures with torch's own operators; `synchronize` waits for every stream of the device."""
    from torchparity.kernels.arenas.portable import PortableArena  # torch

    return PortableArena(synchronize, has_float64=has_float64)
