"""A dispatch mode in which products have factors of 10 bits, as TF32 has: its very errors, not just their size."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

VARIANTS = 2  # factors are rounded, or cut off
_SIGNIFICANT_BITS = 11  # with the one that is not stored
_SMALLEST = -126  # the exponent of the smallest normal float32
# The places of the factors among the arguments.
_FACTORS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "convolution"), (0, 1)),
    **dict.fromkeys(("addmm", "_addmm_activation", "baddbmm", "addbmm", "addmv"), (1, 2)),
    **dict.fromkeys(("convolution_backward", "_scaled_dot_product_flash_attention_for_cpu"), (0, 1, 2)),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (0, 1, 2, 3),
}


class Tf32Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Give every product, convolution and attention factors of 10 bits: rounded in variant 0, cut off in variant 1."""

    def __init__(self, variant: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._shorten = torch.round if variant == 0 else torch.trunc

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        places = _FACTORS.get(func.overloadpacket.__name__, ())
        given = [self._short(value) if place in places else value for place, value in enumerate(args)]
        return func(*given, **(kwargs or {}))

    def _short(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64:
            return value
        fractions, exponents = torch.frexp(value)
        # float32's subnormals have fewer bits, and so have those of TF32.
        lost = (_SMALLEST + 1 - exponents).clamp(0, _SIGNIFICANT_BITS)
        steps = torch.ldexp(torch.ones_like(value), _SIGNIFICANT_BITS - lost)
        return torch.ldexp(self._shorten(fractions * steps) / steps, exponents)
