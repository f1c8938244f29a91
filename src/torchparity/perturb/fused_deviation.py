"""The largest deviation of two results on a CUDA device by one kernel, where Triton can compile it."""

from __future__ import annotations

from functools import cache

import torch

from torchparity.calls import attempted
from torchparity.kernels.compiled_kernel import ANY_INTEGER, CompiledKernel, compiled_kernel

_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32})
_BLOCK = 2048
_WARPS = 4
_MOST_PROGRAMS = 2112
_ALIGNMENT = 16  # bytes that a thread loads at a time
_ZEROS = 256  # zeros that are made together


def fused_deviation(original: torch.Tensor, perturbed: torch.Tensor, floor: float) -> torch.Tensor | None:
    """Return the deviation of two results of the same shape, in float32; None where there is no kernel for them."""
    if not original.is_cuda or original.dtype not in _DTYPES or perturbed.dtype not in _DTYPES:
        return None
    original, perturbed = original.contiguous(), perturbed.contiguous()
    addresses = original.data_ptr(), perturbed.data_ptr()
    is_aligned = not (addresses[0] % _ALIGNMENT or addresses[1] % _ALIGNMENT)
    kernel = _kernel(original.get_device(), original.dtype, perturbed.dtype, is_aligned)
    if kernel is None:
        return None
    stream = torch._C._cuda_getCurrentRawStream(original.get_device())
    largest = _zeros(original.device, stream).take()
    count = original.numel()
    programs = min(-(-count // _BLOCK), _MOST_PROGRAMS)
    kernel.launch(programs, stream, (*addresses, largest.data_ptr(), count, floor))
    return largest


class Zeros:
    """Zeros of float32 for the kernels of one stream: making each alone would take a launch."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._left: list[torch.Tensor] = []

    def take(self) -> torch.Tensor:
        """Return a zero that nobody else has; those that are made now are made on the current stream."""
        try:
            return self._left.pop()
        except IndexError:  # as well where another thread took the last
            with torch.inference_mode(False):  # they outlive the user's block
                first, *others = torch.zeros(_ZEROS, dtype=torch.float32, device=self._device).unbind()
            self._left += others
            return first


@cache
def _zeros(device: torch.device, stream: int) -> Zeros:
    return Zeros(device)


@cache
def _kernel(index: int, original: torch.dtype, perturbed: torch.dtype, is_aligned: bool) -> CompiledKernel | None:
    """Return the kernel for two dtypes; None where Triton is missing or cannot compile it."""
    kernel = attempted(lambda: _compiled(index, original, perturbed, is_aligned))
    return None if isinstance(kernel, Exception) else kernel


def _compiled(index: int, original: torch.dtype, perturbed: torch.dtype, is_aligned: bool) -> CompiledKernel:
    from torchparity.perturb.triton_launch import deviations  # Triton takes a second to import

    kinds = {torch.float32: deviations.FLOAT32, torch.float16: deviations.FLOAT16, torch.bfloat16: deviations.BFLOAT16}
    constants = kinds[original], kinds[perturbed], is_aligned, _BLOCK
    return compiled_kernel(deviations.largest_deviation, (*(ANY_INTEGER,) * 4, 1.0), constants, index, warps=_WARPS)
