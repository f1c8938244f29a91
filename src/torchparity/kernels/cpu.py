"""Statistics and checksum of host memory: one compiled pass, all cores for large tensors."""

from __future__ import annotations

import math
import threading
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from torchparity.kernels import reference
from torchparity.kernels.numba_loops import blocks
from torchparity.kernels.numba_loops.cores import cores
from torchparity.kernels.statistics import statistics_of
from torchparity.records import Statistics
from torchparity.tensors import PAIRS, HostTensor

_SHARED_FROM = 1 << 16  # elements from which a second core is worth waking
_SAFE_SQUARE = 1e140
Array = npt.NDArray[Any]


class CpuKernel:
    """See the contract in `kernels/__init__.py`; `exact` computes every sum in float64."""

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self._lock = threading.Lock()

    @cached_property
    def _cores(self) -> int:
        return cores()  # when it is first needed: asking starts threads, which loading this file should not

    def statistics(self, tensor: HostTensor) -> Statistics:
        kind = tensor.array.dtype
        if kind.kind in "iu" or tensor.dtype == "torch.bool":
            return _integers(tensor)
        if kind.kind == "c" or tensor.dtype in PAIRS or tensor.dtype == "torch.float4_e2m1fn_x2":
            return reference.PLUGIN.statistics(tensor)
        flat = dense(tensor.array)
        if kind not in (np.float32, np.float64):
            flat = flat.astype(np.float32)  # halves, bfloat16 and fp8 fit exactly
        return self._floats(flat, tensor)

    def checksum(self, tensor: HostTensor) -> str:
        return f"{isal_zlib.crc32(tensor.raw()):08x}"

    def _floats(self, flat: Array, tensor: HostTensor) -> Statistics:
        exact = self._exact or flat.dtype == np.float64
        if flat.size < _SHARED_FROM or self._cores == 1:
            row = blocks.floats(flat, exact)
        else:
            with self._lock:  # numba's simplest scheduler takes one caller at a time
                row = blocks.floats_on_all_cores(flat, exact, self._cores)
        total, squares, largest, smallest, zeros, nans, infs, negative_infs = row.tolist()
        extreme = max(abs(largest), abs(smallest))
        if flat.size and flat.dtype == np.float64 and extreme and not 1 / _SAFE_SQUARE < extreme < _SAFE_SQUARE:
            return reference.PLUGIN.statistics(tensor)  # squares leave float64; the reference scales them
        finite = flat.size - int(nans + infs + negative_infs)
        return statistics_of(
            count=flat.size,
            largest=largest if finite else None,
            smallest=smallest if finite else None,
            mean=total / max(1, finite),
            norm=math.sqrt(squares),
            nan=int(nans),
            inf=int(infs),
            negative_inf=int(negative_infs),
            zero=int(zeros),
            is_bool=False,
        )


PLUGIN = CpuKernel()


def dense(array: Array) -> Array:
    """Return all elements in one dimension, in any order; a copy only where they are not side by side."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    by_stride = array.transpose(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return by_stride.reshape(-1)  # copies where gaps or repeats leave no other way


def _integers(tensor: HostTensor) -> Statistics:
    flat = dense(tensor.array)
    if flat.dtype == np.bool_:
        flat = flat.view(np.uint8)
    row, extremes = blocks.empty_row(), flat[:1].repeat(2)
    if flat.size:
        blocks.add_integers(flat, 0, flat.size, row, extremes)
    return statistics_of(
        count=flat.size,
        largest=int(extremes[0]) if flat.size else None,
        smallest=int(extremes[1]) if flat.size else None,
        mean=float(row[blocks.SUM]) / max(1, flat.size),
        norm=math.sqrt(row[blocks.SQUARES]),
        nan=0,
        inf=0,
        negative_inf=0,
        zero=int(row[blocks.ZEROS]),
        is_bool=tensor.dtype == "torch.bool",
    )
