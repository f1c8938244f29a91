"""Arenas measure many tensors with few launches; `contract` says what an arena does.

    arena.add(...) or arena.add_all(...)      queue tensors
    arena.flush()                             measure the queue; from here on the tensors may change or be freed
    pending = arena.take()                    end a step: the arena starts over
    pending.wait()                            block until the device is done; return the readings

`host` measures float32 in host memory with numba, `cuda` most dtypes on a CUDA device with Triton,
`portable` any device with torch's own operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torchparity.kernels.arenas.contract import Arena, PendingReadings
from torchparity.kernels.compile_notice import CompileNotice
from torchparity.kernels.measured_rows import MeasuredRows, Reading, joined

if TYPE_CHECKING:
    import torch

__all__ = [
    "Arena",
    "MeasuredRows",
    "PendingReadings",
    "Reading",
    "cuda_arena",
    "host_arena",
    "joined",
    "portable_arena",
]


def host_arena(*, exact: bool, checksums: bool) -> Arena:
    """Return the arena for float32 in host memory."""
    from numba.core.event import RecordingListener, install_listener

    from torchparity.kernels.arenas.host import HostArena  # loads the compiler

    arena = HostArena(exact=exact, checksums=checksums)
    compilations = RecordingListener()  # type: ignore[no-untyped-call]
    notice = CompileNotice("the CPU", has_begun=lambda: bool(compilations.buffer))
    with install_listener("numba:compile", compilations), notice.while_compiling():
        arena.try_out()
    return arena


def cuda_arena(device: torch.device, *, exact: bool, checksums: bool) -> Arena:
    """Return the arena of a CUDA device; raise where this machine cannot compile or launch its kernel."""
    from torchparity.kernels.arenas.cuda import CudaArena  # Triton takes a second to import

    arena = CudaArena(device, exact=exact, checksums=checksums)
    arena.try_out()
    return arena


def portable_arena(synchronize: Callable[[], object], *, has_float64: bool = True) -> Arena:
    """Return the arena that measures with torch's own operators; `synchronize` waits for every stream of the device."""
    from torchparity.kernels.arenas.portable import PortableArena  # torch

    return PortableArena(synchronize, has_float64=has_float64)
