"""Sums in another order than the CPU's: as right, and other in the last bits."""

from __future__ import annotations

from typing import Any, Literal

import torch

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.precision.products import FACTORS, SUMMED_AXES

_CHUNKS = 4
_SUMS = frozenset({"sum", "mean", "logsumexp", "linalg_vector_norm", "var", "std"})


class Reordered:
    """Sums back to front, or in interleaved chunks."""

    def __init__(self, order: Literal["reversed", "chunked"]) -> None:
        self._order = order

    def concerns(self, name: str) -> bool:
        return name in SUMMED_AXES or name in _SUMS

    def run(self, call: HostCall, kernel: Kernel) -> Any:
        if call.name in SUMMED_AXES:
            left, right = FACTORS[call.name]
            order = self._permutation(call.argument(left).shape[-1])
            call = call.with_argument(left, call.argument(left).index_select(-1, order))
            return kernel(call.with_argument(right, call.argument(right).index_select(-2, order)))
        values = call.argument("self")
        if not values.dim():
            return kernel(call)
        for axis in _summed(call, values.dim()):
            values = values.index_select(axis, self._permutation(values.shape[axis]))
        return kernel(call.with_argument("self", values))

    def _permutation(self, count: int) -> torch.Tensor:
        if self._order == "reversed":
            return torch.arange(count - 1, -1, -1)
        return torch.cat([torch.arange(start, max(start, count), _CHUNKS) for start in range(_CHUNKS)])


def _summed(call: HostCall, dimensions: int) -> list[int]:
    axes = call.argument("dim") if call.has("dim") else None
    if axes is None or axes == []:
        return list(range(dimensions))
    return [axes] if isinstance(axes, int) else list(axes)
