"""Statistics of tensors on any device with torch's own operators; nothing waits for the device until the step ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torchparity.kernels import row
from torchparity.kernels.arenas.contract import PendingReadings
from torchparity.kernels.arenas.device_signs import DeviceSigns
from torchparity.kernels.layouts import Layout
from torchparity.kernels.measured_rows import MeasuredRows, Reading
from torchparity.kernels.statistics import statistics_of_row
from torchparity.records import Statistics

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
_SLICE = 1 << 24  # elements at a time: the operators need copies; whole groups of a sketch


@dataclass
class _Measured:
    """One tensor: a row of sums for each slice, and for integers the extremes of each slice with every digit."""

    owner: Any
    count: int
    dtype: torch.dtype
    rows: torch.Tensor
    extremes: torch.Tensor | None

    def on_host(self) -> _Measured:
        extremes = None if self.extremes is None else self.extremes.cpu()
        return _Measured(self.owner, self.count, self.dtype, self.rows.cpu(), extremes)


class PortableArena:
    """See `contract.Arena`. Takes no checksums, and orders its operators in `add`."""

    dtypes = frozenset(map(str, (*_FLOATS, *_INTEGERS)))
    is_zero_copy = False

    def __init__(self, synchronize: Callable[[], object], *, has_float64: bool = True) -> None:
        self._synchronize = synchronize
        self._wide = torch.float64 if has_float64 else torch.float32
        self._measured: list[_Measured] = []
        self._signs: dict[torch.device, DeviceSigns] = {}

    def layout_of(self, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], address: int) -> Layout | None:
        return None

    def add(
        self, tensor: torch.Tensor, address: int, count: int, dtype: str, owner: Any, layout: Layout | None = None
    ) -> None:
        flat = tensor.detach().reshape(-1)
        if tensor.device not in self._signs:
            self._signs[tensor.device] = DeviceSigns(tensor.device, self._wide)
        signs, starts = self._signs[tensor.device], range(0, count, _SLICE)
        slices = [flat[first : first + _SLICE] for first in starts]
        rows = torch.stack([_row(part, self._wide, signs, first) for part, first in zip(slices, starts, strict=True)])
        extremes = None if tensor.dtype in _FLOATS else torch.stack([_extremes(part) for part in slices])
        self._measured.append(_Measured(owner, count, tensor.dtype, rows, extremes))

    def add_all(
        self,
        tensors: Sequence[torch.Tensor],
        addresses: Sequence[int],
        counts: Sequence[int],
        dtype: str,
        owners: Sequence[Any],
    ) -> None:
        for tensor, address, count, owner in zip(tensors, addresses, counts, owners, strict=True):
            self.add(tensor, address, count, dtype, owner)

    def flush(self) -> None:
        """Do nothing: `add` has ordered everything."""

    def drop(self) -> bool:
        return False

    def take(self) -> PendingReadings:
        measured, self._measured = self._measured, []
        if measured:
            self._synchronize()  # rows may be on other streams than the current one
        return _PortableReadings([entry.on_host() for entry in measured])


class _PortableReadings:
    """Rows that are on the host already."""

    def __init__(self, measured: list[_Measured]) -> None:
        self._measured = measured

    def __len__(self) -> int:
        return len(self._measured)

    def wait(self) -> list[Reading]:
        return list(self.wait_for_rows().readings())

    def wait_for_rows(self) -> MeasuredRows:
        counts = np.array([entry.count for entry in self._measured], np.int64)
        statistics = dict(enumerate(map(_statistics, self._measured)))
        owners = [entry.owner for entry in self._measured]
        return MeasuredRows(owners, counts, np.zeros((len(owners), row.FIELDS)), others=statistics)


def _row(part: torch.Tensor, wide: torch.dtype, signs: DeviceSigns, start: int) -> torch.Tensor:
    """Return the sums, extremes and counts of a slice in the order of `kernels/row.py`."""
    value = part.to(wide)
    is_finite = torch.isfinite(value)
    finite = torch.where(is_finite, value, 0)
    if wide == torch.float32:  # whose squares overflow
        largest = finite.abs().amax()
        finite = finite / torch.where(largest > 0, largest, 1)
    sums: dict[int, torch.Tensor] = {
        row.SUM: finite.sum(),
        row.SQUARES: (finite * finite).sum(),
        row.MAX: torch.where(is_finite, value, -torch.inf).amax(),
        row.MIN: torch.where(is_finite, value, torch.inf).amin(),
        row.ZEROS: (value == 0).sum().to(wide),
        row.NANS: torch.isnan(value).sum().to(wide),
        row.INFS: (value == torch.inf).sum().to(wide),
        row.NEGATIVE_INFS: (value == -torch.inf).sum().to(wide),
    }
    return torch.cat([torch.stack([sums[field] for field in range(row.SKETCH)]), signs.sums(finite, start)])


def _extremes(part: torch.Tensor) -> torch.Tensor:
    """Return the largest and the smallest integer of a slice with every digit."""
    whole = part.to(torch.int64)
    return torch.stack([whole.amax(), whole.amin()])


def _statistics(measured: _Measured) -> Statistics:
    rows, extremes = measured.rows, measured.extremes
    sums = _without_scale(rows).sum(dim=0).tolist()
    sums[row.MAX], sums[row.MIN] = rows[:, row.MAX].max().item(), rows[:, row.MIN].min().item()
    max_and_min = None if extremes is None else (int(extremes[:, 0].max()), int(extremes[:, 1].min()))
    is_bool, is_wide = measured.dtype == torch.bool, measured.dtype == torch.float64
    return statistics_of_row(measured.count, sums, max_and_min, is_bool=is_bool, is_wide=is_wide)


def _without_scale(rows: torch.Tensor) -> torch.Tensor:
    """Return rows in float64; the sums of rows in float32 are those of numbers divided by the largest of them."""
    wide = rows.double()
    if rows.dtype == torch.float32:
        largest = wide[:, [row.MAX, row.MIN]].abs().amax(dim=1)
        scale = torch.where(torch.isfinite(largest) & (largest > 0), largest, 1)
        wide[:, row.SUM] *= scale
        wide[:, row.SQUARES] *= scale * scale
        wide[:, row.SKETCH :] *= scale[:, None]
    return wide
