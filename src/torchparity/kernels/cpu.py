"""Statistics and checksum of host memory: one compiled pass, all cores for large tensors."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from torchparity.kernels import _blocks, reference
from torchparity.kernels._statistics import statistics_of
from torchparity.records import Statistics
from torchparity.tensors import HostTensor

_SHARED_FROM = 1 << 18  # elements from which a second core is worth waking
_SAFE_SQUARE = 1e140
Array = npt.NDArray[Any]
Pass = Callable[[Array, int, int, _blocks.Row], None]


class CpuKernel:
    """See the contract in `kernels/__init__.py`; `exact` computes every sum in float64."""

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self._others = os.cpu_count() or 1
        self._pool: ThreadPoolExecutor | None = None

    def statistics(self, tensor: HostTensor) -> Statistics:
        kind = tensor.array.dtype
        if kind.kind in "iu" or tensor.dtype == "torch.bool":
            return _integers(tensor)
        if kind.kind == "c" or tensor.dtype in ("torch.complex32", "torch.float4_e2m1fn_x2"):
            return reference.PLUGIN.statistics(tensor)
        flat = dense(tensor.array)
        if kind not in (np.float32, np.float64):
            flat = flat.astype(np.float32)  # halves, bfloat16 and fp8 fit exactly
        return self._floats(flat, tensor)

    def checksum(self, tensor: HostTensor) -> str:
        return f"{isal_zlib.crc32(tensor.raw()):08x}"

    def _floats(self, flat: Array, tensor: HostTensor) -> Statistics:
        row = self._row(flat)
        largest, smallest = row[_blocks.MAX], row[_blocks.MIN]
        extreme = max(abs(largest), abs(smallest))
        if flat.size and flat.dtype == np.float64 and extreme and not 1 / _SAFE_SQUARE < extreme < _SAFE_SQUARE:
            return reference.PLUGIN.statistics(tensor)  # squares leave float64; the reference scales them
        nan, inf, negative = (int(row[place]) for place in (_blocks.NANS, _blocks.INFS, _blocks.NEGATIVE_INFS))
        is_empty = flat.size == nan + inf + negative
        return statistics_of(
            count=flat.size,
            largest=None if is_empty else float(largest),
            smallest=None if is_empty else float(smallest),
            mean=float(row[_blocks.SUM]) / max(1, flat.size - nan - inf - negative),
            norm=math.sqrt(row[_blocks.SQUARES]),
            nan=nan,
            inf=inf,
            negative_inf=negative,
            zero=int(row[_blocks.ZEROS]),
            is_bool=False,
        )

    def _row(self, flat: Array) -> _blocks.Row:
        work: Pass = _blocks.add_floats_exactly if self._exact or flat.dtype == np.float64 else _blocks.add_floats
        if flat.size < _SHARED_FROM or self._others == 1:
            row = _blocks.empty_row()
            work(flat, 0, flat.size, row)
            return row
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._others - 1, thread_name_prefix="torchparity-kernel")
        rows = [_blocks.empty_row() for _ in range(self._others)]
        cuts = [flat.size * part // self._others for part in range(self._others + 1)]
        rest = [
            self._pool.submit(work, flat, cuts[part], cuts[part + 1], rows[part]) for part in range(1, self._others)
        ]
        work(flat, cuts[0], cuts[1], rows[0])
        for part in rest:
            part.result()
        return _blocks.combine(rows)


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
    row, extremes = _blocks.empty_row(), flat[:1].repeat(2)
    if flat.size:
        _blocks.add_integers(flat, 0, flat.size, row, extremes)
    return statistics_of(
        count=flat.size,
        largest=int(extremes[0]) if flat.size else None,
        smallest=int(extremes[1]) if flat.size else None,
        mean=float(row[_blocks.SUM]) / max(1, flat.size),
        norm=math.sqrt(row[_blocks.SQUARES]),
        nan=0,
        inf=0,
        negative_inf=0,
        zero=int(row[_blocks.ZEROS]),
        is_bool=tensor.dtype == "torch.bool",
    )
