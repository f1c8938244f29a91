"""Kernels of our own on a CUDA device, where Triton can compile them; torch's operators serve all others.

They are launched without Triton's launcher, which looks at each argument anew and takes most of a launch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from torchparity.calls import attempted

_KINDS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}  # as the kernels number them
_HALVES = frozenset({torch.float16, torch.bfloat16})
_BLOCK = 2048
_WARPS = 4
_MOST_PROGRAMS = 2112
_FEWEST_RAISED = 1 << 20  # elements; torch raises fewer as fast
_ALIGNMENT = 16  # bytes that a thread loads at a time
_ANY_INTEGER = 1 << 40  # an argument of 64 bits, for which a kernel is compiled
_ANY_NUMBER = 0.5

Launch = Callable[..., None]  # with the number of programs, and the arguments of the kernel


def fused_deviation(original: torch.Tensor, perturbed: torch.Tensor, floor: float) -> torch.Tensor | None:
    """Return the largest deviation of two results of the same shape, in float32; None where no kernel takes them."""
    if not original.is_cuda or original.dtype not in _KINDS or perturbed.dtype not in _KINDS:
        return None
    original, perturbed = original.contiguous(), perturbed.contiguous()
    left, right, count = original.data_ptr(), perturbed.data_ptr(), original.numel()
    is_aligned = not (left % _ALIGNMENT or right % _ALIGNMENT)
    constants = _KINDS[original.dtype], _KINDS[perturbed.dtype], is_aligned, _BLOCK
    launch = _launcher(original.get_device(), "largest_deviation", (*(_ANY_INTEGER,) * 4, _ANY_NUMBER), constants)
    if launch is None:
        return None
    largest = torch.zeros((), device=original.device)
    launch(min(-(-count // _BLOCK), _MOST_PROGRAMS), left, right, largest.data_ptr(), count, floor)
    return largest


def fused_raise(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor of halves in float32, without a gradient; None where no kernel takes it, or torch is as fast."""
    count = tensor.numel()
    if not tensor.is_cuda or tensor.dtype not in _HALVES or count < _FEWEST_RAISED or not tensor.is_contiguous():
        return None
    if tensor.requires_grad and torch.is_grad_enabled():
        return None
    source = tensor.data_ptr()
    constants = _KINDS[tensor.dtype], source % _ALIGNMENT == 0, _BLOCK
    launch = _launcher(tensor.get_device(), "raise_halves", (_ANY_INTEGER,) * 3, constants)
    if launch is None:
        return None
    raised = torch.empty_like(tensor, dtype=torch.float32)
    launch(-(-count // _BLOCK), source, raised.data_ptr(), count)
    return raised


@cache
def _launcher(index: int, kernel: str, examples: tuple[float, ...], constants: tuple[int, ...]) -> Launch | None:
    """Return what launches a kernel; None where Triton is missing or cannot compile it."""
    launch = attempted(lambda: _compiled(index, kernel, examples, constants))
    return None if isinstance(launch, Exception) else launch


def _compiled(index: int, kernel: str, examples: tuple[float, ...], constants: tuple[int, ...]) -> Launch:
    from torchparity.perturb.triton_launch import passes  # Triton takes a second to import

    with torch.cuda.device(index):  # Triton loads a kernel for the current one
        function: Any = getattr(passes, kernel)
        compiled = function.warmup(*examples, *constants, num_warps=_WARPS, grid=(1,))
        run, loaded, metadata = compiled.run, compiled.function, compiled.packed_metadata

    def launch(programs: int, *arguments: float) -> None:
        stream = torch._C._cuda_getCurrentRawStream(index)
        if torch._C._cuda_getDevice() == index:
            run(programs, 1, 1, stream, loaded, metadata, None, None, None, *arguments, *constants)
        else:
            with torch.cuda.device(index):
                run(programs, 1, 1, stream, loaded, metadata, None, None, None, *arguments, *constants)

    return launch
