"""The largest deviation of two results on a CUDA device by one kernel, where Triton can compile it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from torchparity.calls import attempted
from torchparity.kernels.compiled_kernel import ANY_INTEGER, compiled_kernel

_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32})
_BLOCK = 2048
_WARPS = 4
_MOST_PROGRAMS = 2112
_ALIGNMENT = 16  # bytes that a thread loads at a time

Launch = Callable[[int, int, int, int, float, int], None]  # addresses, count, floor, programs


def fused_deviation(original: torch.Tensor, perturbed: torch.Tensor, floor: float) -> torch.Tensor | None:
    """Return the deviation of two results of the same shape, in float32; None where there is no kernel for them."""
    if not original.is_cuda or original.dtype not in _DTYPES or perturbed.dtype not in _DTYPES:
        return None
    original, perturbed = original.contiguous(), perturbed.contiguous()
    addresses = original.data_ptr(), perturbed.data_ptr()
    is_aligned = not (addresses[0] % _ALIGNMENT or addresses[1] % _ALIGNMENT)
    launch = _launcher(original.get_device(), original.dtype, perturbed.dtype, is_aligned)
    if launch is None:
        return None
    largest = torch.zeros((), device=original.device)
    count = original.numel()
    launch(*addresses, largest.data_ptr(), count, floor, min(-(-count // _BLOCK), _MOST_PROGRAMS))
    return largest


@cache
def _launcher(index: int, original: torch.dtype, perturbed: torch.dtype, is_aligned: bool) -> Launch | None:
    """Return what launches the kernel for two dtypes; None where Triton is missing or cannot compile it."""
    launch = attempted(lambda: _compiled(index, original, perturbed, is_aligned))
    return None if isinstance(launch, Exception) else launch


def _compiled(index: int, original: torch.dtype, perturbed: torch.dtype, is_aligned: bool) -> Launch:
    from torchparity.perturb.triton_launch import deviations  # Triton takes a second to import

    kinds = {torch.float32: deviations.FLOAT32, torch.float16: deviations.FLOAT16, torch.bfloat16: deviations.BFLOAT16}
    constants = kinds[original], kinds[perturbed], is_aligned, _BLOCK
    kernel = compiled_kernel(deviations.largest_deviation, (*(ANY_INTEGER,) * 4, 1.0), constants, index, warps=_WARPS)

    def launch(left: int, right: int, largest: int, count: int, floor: float, programs: int) -> None:
        stream = torch._C._cuda_getCurrentRawStream(index)
        kernel.launch(programs, stream, (left, right, largest, count, floor))

    return launch
