"""Matmuls that accumulate in fewer bits than the CPU's."""

from __future__ import annotations

from typing import Any, Literal

import torch

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.precision.products import FACTORS, SUMMED_AXES

_NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}
_BLOCK = 16  # products that are summed exactly before the sum is rounded
_TF32_DROPPED_BITS = 13  # of the 23 that float32 stores


class Accumulating:
    """Sums products in bf16 or fp16, block by block, or with factors rounded to TF32's 11 bits.

    Convolutions and attention have no blocks here: their result is rounded once.
    """

    def __init__(self, kind: Literal["bf16", "fp16", "tf32"]) -> None:
        self._kind = kind

    def concerns(self, name: str) -> bool:
        return name in FACTORS

    def run(self, call: HostCall, kernel: Kernel) -> Any:
        factors = FACTORS[call.name]
        if any(not call.argument(name).is_floating_point() for name in factors):
            return kernel(call)
        if self._kind == "tf32":
            return kernel(_with_tf32_factors(call, factors))
        narrow = _NARROW[self._kind]
        if call.name in SUMMED_AXES:
            return _blockwise(call, kernel, narrow)
        return _rounded(kernel(call), narrow)


def _with_tf32_factors(call: HostCall, factors: tuple[str, ...]) -> HostCall:
    for name in factors:
        value = call.argument(name)
        if value.dtype is torch.float32:
            call = call.with_argument(name, to_tf32(value))
    return call


def to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Return float32 numbers rounded to 11 significant bits, ties to even."""
    bits = values.contiguous().view(torch.int32)
    half = (1 << (_TF32_DROPPED_BITS - 1)) - 1
    rounded = (bits + half + ((bits >> _TF32_DROPPED_BITS) & 1)) & ~((1 << _TF32_DROPPED_BITS) - 1)
    return torch.where(values.isfinite(), rounded.view(torch.float32), values)


def _blockwise(call: HostCall, kernel: Kernel, narrow: torch.dtype) -> Any:
    """Run the kernel once per block of the summed axis; what is added to the product comes with the first block."""
    names = FACTORS[call.name]
    left, right = (call.argument(name) for name in names)
    count = left.shape[-1]
    total = _block(call, kernel, left, right, 0)
    for start in range(_BLOCK, count, _BLOCK):
        part = call.with_argument("beta", 0) if call.has("beta") else call
        product = _block(part, _fresh(kernel), left, right, start)
        total.copy_((total + product).to(narrow))
    total.copy_(total.to(narrow))
    return total


def _block(call: HostCall, kernel: Kernel, left: torch.Tensor, right: torch.Tensor, start: int) -> Any:
    names = FACTORS[call.name]
    size = min(_BLOCK, left.shape[-1] - start)
    call = call.with_argument(names[0], left.narrow(-1, start, size))
    return kernel(call.with_argument(names[1], right.narrow(-2, start, size)))


def _fresh(kernel: Kernel) -> Kernel:
    """Return a kernel that writes no argument: a block's product is added by the caller."""

    def run(call: HostCall) -> Any:
        given = {name: _copied(value) for name, value in call.keywords.items()}
        arguments = tuple(_copied(value) for value in call.arguments)
        return kernel(HostCall(call.name, call.operator, arguments, given))

    return run


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _rounded(result: Any, narrow: torch.dtype) -> Any:
    for output in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            output.copy_(output.to(narrow))
    return result
