"""Copies of tensors in a wider dtype; large ones on a CUDA device by one kernel, where Triton can compile it."""

from __future__ import annotations

from functools import cache

import torch

from torchparity.calls import attempted
from torchparity.kernels.compiled_kernel import ANY_INTEGER, CompiledKernel, compiled_kernel

_HALVES = frozenset({torch.float16, torch.bfloat16})
_FEWEST = 1 << 20  # elements below which torch's own copy is as fast
_ALIGNMENT = 16  # bytes that a thread loads at a time
_BLOCK = 4096  # elements of a program
_WARPS = 4


def widened(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor in another dtype, as `Tensor.to` does; itself where that is its own."""
    if not tensor.is_cuda or dtype is not torch.float32 or not _is_large_half(tensor):
        return tensor.to(dtype)
    kernel = _kernel(tensor.get_device(), tensor.dtype)
    if kernel is None:
        return tensor.to(dtype)
    wide = torch.empty_like(tensor, dtype=dtype)
    count = tensor.numel()
    stream = torch._C._cuda_getCurrentRawStream(tensor.get_device())
    kernel.launch(-(-count // _BLOCK), stream, (tensor.data_ptr(), wide.data_ptr(), count))
    return wide


def _is_large_half(tensor: torch.Tensor) -> bool:
    """Tell whether a plain copy of memory, which autograd does not see, widens a tensor."""
    return (
        tensor.dtype in _HALVES
        and tensor.numel() >= _FEWEST
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not tensor.data_ptr() % _ALIGNMENT
        and not (tensor.requires_grad and torch.is_grad_enabled())
    )


@cache
def _kernel(index: int, dtype: torch.dtype) -> CompiledKernel | None:
    """Return the kernel for a dtype on a device; None where Triton is missing or cannot compile it."""
    kernel = attempted(lambda: _compiled(index, dtype))
    return None if isinstance(kernel, Exception) else kernel


def _compiled(index: int, dtype: torch.dtype) -> CompiledKernel:
    from torchparity.perturb.triton_launch import widening  # Triton takes a second to import

    kind = widening.FLOAT16 if dtype is torch.float16 else widening.BFLOAT16
    return compiled_kernel(widening.widen, (ANY_INTEGER,) * 3, (kind, _BLOCK), index, warps=_WARPS)
