"""Statistics of one host tensor: one compiled pass, on all cores for large tensors."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.kernels import reference, row
from torchparity.kernels.numba_loops import blocks
from torchparity.kernels.numba_loops.cores import PARALLEL_FROM, cores
from torchparity.kernels.numba_loops.sketches import sums_of_ones
from torchparity.kernels.row import squares_fit_float64
from torchparity.kernels.signs import is_wide, packed_sums
from torchparity.kernels.statistics import norm_of, statistics_of, statistics_of_row
from torchparity.records import Statistics
from torchparity.tensors import PAIRS, HostTensor

_MOST_REPEATED = 1 << 30  # a tenth of a second
Array = npt.NDArray[Any]


class CpuKernel:
    """Measures host tensors of every dtype; with `exact` every sum is computed in float64."""

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self._lock = threading.Lock()

    @cached_property
    def _cores(self) -> int:
        return cores()  # when it is first needed: asking starts threads, which loading this file should not

    def statistics(self, tensor: HostTensor) -> Statistics:
        """Return what `reference.statistics` returns, faster."""
        kind = tensor.array.dtype
        if kind.kind in "iu" or tensor.dtype == "torch.bool":
            return _integers(tensor)
        if kind.kind == "c" or tensor.dtype in PAIRS or tensor.dtype == "torch.float4_e2m1fn_x2":
            return reference.statistics(tensor)
        flat = tensor.array.reshape(-1)
        if kind not in (np.float32, np.float64):
            flat = flat.astype(np.float32)  # halves, bfloat16 and fp8 fit exactly
        return self._floats(flat, tensor)

    def _floats(self, flat: Array, tensor: HostTensor) -> Statistics:
        exact = self._exact or flat.dtype == np.float64
        if flat.size < PARALLEL_FROM or self._cores == 1:
            sums = blocks.floats(flat, exact)
        else:
            with self._lock:  # numba's simplest scheduler takes one caller at a time
                sums = blocks.floats_on_all_cores(flat, exact, self._cores)
        extreme = max(abs(sums[row.MAX]), abs(sums[row.MIN]))
        if flat.size and flat.dtype == np.float64 and not squares_fit_float64(extreme):
            return reference.statistics(tensor)  # the reference scales the numbers before it squares them
        return statistics_of_row(flat.size, sums.tolist(), is_wide=flat.dtype == np.float64)


def sketch_of_repeated(value: float, times: int, dtype: str) -> bytes | None:
    """Return the sketch of a tensor that shows one number many times; None where finding it would take long."""
    if times > _MOST_REPEATED:
        return None
    return packed_sums(value * sums_of_ones(times), wide=is_wide(dtype))


def _integers(tensor: HostTensor) -> Statistics:
    flat = tensor.array.reshape(-1)
    if flat.dtype == np.bool_:
        flat = flat.view(np.uint8)
    sums, extremes = blocks.empty_row(), flat[:1].repeat(2)
    if flat.size:
        blocks.add_integers(flat, 0, flat.size, sums, extremes)
    return statistics_of(
        count=flat.size,
        largest=int(extremes[0]) if flat.size else None,
        smallest=int(extremes[1]) if flat.size else None,
        mean=float(sums[row.SUM]) / max(1, flat.size),
        norm=norm_of(sums[row.SQUARES]),
        nan=0,
        inf=0,
        negative_inf=0,
        zero=int(sums[row.ZEROS]),
        is_bool=tensor.dtype == "torch.bool",
        sketch=packed_sums(sums[row.SKETCH :], wide=True),
    )
