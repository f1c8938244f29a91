"""The largest deviation of two results on a CUDA device by one kernel, where Triton can compile it."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from torchparity.calls import attempted

_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32})
_BLOCK = 2048
_WARPS = 4
_MOST_PROGRAMS = 2048


def fused_deviation(original: torch.Tensor, perturbed: torch.Tensor, floor: float) -> torch.Tensor | None:
    """Return the deviation of two results of the same shape, in float32; None where there is no kernel for them."""
    if not original.is_cuda or original.dtype not in _DTYPES or perturbed.dtype not in _DTYPES:
        return None
    kernel = _kernel_of(original.device)
    return None if kernel is None else _launched(kernel, original, perturbed, floor)


def _launched(kernel: Any, original: torch.Tensor, perturbed: torch.Tensor, floor: float) -> torch.Tensor:
    original, perturbed = original.contiguous(), perturbed.contiguous()
    largest = torch.zeros((), device=original.device)
    count = original.numel()
    programs = min(-(-count // _BLOCK), _MOST_PROGRAMS)
    if original.get_device() == torch.cuda.current_device():
        kernel[(programs,)](original, perturbed, largest, count, floor, BLOCK=_BLOCK, num_warps=_WARPS)
    else:
        with torch.cuda.device(original.device):
            kernel[(programs,)](original, perturbed, largest, count, floor, BLOCK=_BLOCK, num_warps=_WARPS)
    return largest


@cache
def _kernel_of(device: torch.device) -> Any:
    """Return the kernel; None where Triton is missing, or cannot compile for this device."""
    loaded = attempted(_loaded)
    if isinstance(loaded, Exception):
        return None
    probe = torch.zeros(1, device=device)
    return None if isinstance(attempted(lambda: _launched(loaded, probe, probe, 1.0)), Exception) else loaded


def _loaded() -> Any:
    from torchparity.perturb.triton_launch.deviations import largest_deviation  # Triton takes a second to import

    return largest_deviation
