"""A compiled Triton kernel, launched on a named stream without Triton's own launcher.

That one takes the current stream and some 6 us more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from torchparity.kernels.compile_notice import CompileNotice

ANY_INTEGER = 1 << 40  # an argument of 64 bits, for which a kernel is compiled


class CompiledKernel:
    """A kernel that is compiled for some constants and loaded on one device."""

    def __init__(
        self,
        kernel: Any,
        like: Sequence[float],
        constants: Sequence[object],
        device: int,
        *,
        warps: int,
        most_registers: int | None = None,
    ) -> None:
        """Compile `kernel` for arguments `like` these, and load it; a thread has at most so many registers."""
        with torch.cuda.device(device):  # Triton loads a kernel for the current one
            compiled = kernel.warmup(*like, *constants, num_warps=warps, maxnreg=most_registers, grid=(1,))
            self._run = compiled.run
        self._function, self._metadata = compiled.function, compiled.packed_metadata
        self._constants, self._device = tuple(constants), device

    def launch(self, programs: int, stream: int, arguments: tuple[float, ...]) -> None:
        """Launch so many programs on a stream of the device, which need not be the current one."""
        if torch._C._cuda_getDevice() != self._device:
            with torch.cuda.device(self._device):
                self.launch(programs, stream, arguments)
            return
        run, function, metadata = self._run, self._function, self._metadata
        run(programs, 1, 1, stream, function, metadata, None, None, None, *arguments, *self._constants)


@cache
def compiled_kernel(
    kernel: Any,
    like: tuple[float, ...],
    constants: tuple[object, ...],
    device: int,
    *,
    warps: int,
    most_registers: int | None = None,
) -> CompiledKernel:
    """Return a kernel that every recording of the process shares; the user is told if it has to be compiled."""
    with _notice().while_compiling():
        return CompiledKernel(kernel, like, constants, device, warps=warps, most_registers=most_registers)


@cache
def _notice() -> CompileNotice:
    return CompileNotice("the GPU")
