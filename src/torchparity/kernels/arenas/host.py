"""The arena for tensors in host memory: one compiled call for all tensors of a flush."""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Sequence
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from numba import njit

from torchparity.kernels.arenas.contract import PendingReadings
from torchparity.kernels.layouts import Layout
from torchparity.kernels.measured_rows import MeasuredRows, Reading
from torchparity.kernels.numba_loops import blocks
from torchparity.kernels.numba_loops.cores import PARALLEL_FROM, cores
from torchparity.kernels.numba_loops.crc import compiled_crc, joined
from torchparity.kernels.numba_loops.sketches import part_start
from torchparity.kernels.row import FIELDS, INFS, MAX, MIN, NANS, NEGATIVE_INFS, SQUARES, SUM, ZEROS

if TYPE_CHECKING:
    import torch

_FLOAT_BYTES = 4
_RESULT_ROWS = 1024
Rows = npt.NDArray[np.float64]
Checksums = npt.NDArray[np.uint32]


class _Results:
    """Rows and checksums for a stretch of the step.

    In few large pieces: small ones that last until the step ends would lie between the
    user's tensors, and where those were freed no other would fit.
    """

    def __init__(self, rows: int, cores: int) -> None:
        self.rows, self.crcs = np.zeros((rows, cores, FIELDS)), np.zeros((rows, cores), np.uint32)
        self.rows[:, :, MAX], self.rows[:, :, MIN] = -np.inf, np.inf
        self.used = 0
        self._rows_at, self._crcs_at = self.rows.ctypes.data, self.crcs.ctypes.data
        self._row_bytes, self._crc_bytes = self.rows.strides[0], self.crcs.strides[0]

    def next_addresses(self) -> tuple[int, int]:
        """Return where the rows and checksums of the next tensor are."""
        return self._rows_at + self.used * self._row_bytes, self._crcs_at + self.used * self._crc_bytes


class HostArena:
    """See `contract.Arena`; float32 only, checksums in the same pass.

    Compiled code reads the queue by its address and without the interpreter's lock: who adds while another thread
    flushes must wait, as the measurement cache's lock sees to.
    """

    dtypes = frozenset({"torch.float32"})
    is_zero_copy = True

    def __init__(self, *, exact: bool, checksums: bool) -> None:
        self._exact, self._checksums = exact, checksums
        self._crc = compiled_crc() if checksums else 0
        self._cores = cores()
        self._lock = threading.Lock()
        self._queue = array("q")  # the address and the number of elements of each tensor
        self._queued_elements = 0
        self._counts: list[int] = []
        self._owners: list[Any] = []
        self._done = 0  # how many of them are measured; the rest are queued
        self._results: list[_Results] = []
        self._single: list[tuple[int, int]] = []  # tensors of one element: their index and the element's bits

    def layout_of(self, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], address: int) -> Layout | None:
        return None

    def add(
        self, tensor: torch.Tensor, address: int, count: int, dtype: str, owner: Any, layout: Layout | None = None
    ) -> None:
        self._owners.append(owner)
        if count == 1:  # reading it takes less time than a compiled call
            self._single.append((len(self._counts), ctypes.c_uint32.from_address(address).value))
            self._counts.append(1)
            return
        self._queue.append(address)
        self._queue.append(count)
        self._queued_elements += count
        self._counts.append(count)

    def add_all(
        self,
        tensors: Sequence[torch.Tensor],
        addresses: Sequence[int],
        counts: Sequence[int],
        dtype: str,
        owners: Sequence[Any],
    ) -> None:
        if 1 in counts:
            for tensor, address, count, owner in zip(tensors, addresses, counts, owners, strict=True):
                self.add(tensor, address, count, dtype, owner)
            return
        self._owners += owners
        self._queue.extend(chain.from_iterable(zip(addresses, counts, strict=True)))
        self._queued_elements += sum(counts)
        self._counts += counts

    def flush(self) -> None:
        if not self._queue:
            self._done = len(self._counts)
            return
        tensors = len(self._queue) // 2
        results = self._results[-1] if self._results else None
        if results is None or results.used + tensors > len(results.rows):
            results = _Results(max(_RESULT_ROWS, tensors), self._cores)
            self._results.append(results)
        if self._queued_elements < PARALLEL_FROM or self._cores == 1:
            rows, crcs = results.next_addresses()
            table, _ = self._queue.buffer_info()
            blocks.measure_at(table, tensors, self._exact, self._crc, rows, crcs, self._cores)
        else:
            self._measure_on_all_cores(results)
        if self._checksums and not self._crc:
            entries = zip(self._queue[::2], self._queue[1::2], strict=True)
            results.crcs[results.used : results.used + tensors, 0] = list(starmap(_checksum, entries))
        results.used += tensors
        self._forget_queue()
        self._done = len(self._counts)

    def try_out(self) -> None:
        """Compile what `flush` calls, or load what was compiled before."""
        nothing = _Results(0, self._cores)
        blocks.measure_at(0, 0, self._exact, self._crc, *nothing.next_addresses(), self._cores)

    def drop(self) -> bool:
        if not self._queue:
            return False
        self._forget_queue()
        del self._counts[self._done :], self._owners[self._done :]
        self._single = [entry for entry in self._single if entry[0] < self._done]
        return True

    def take(self) -> PendingReadings:
        self.flush()
        pending = _HostReadings(self._owners, self._counts, self._single, self._results, checksums=self._checksums)
        self._owners, self._counts, self._done, self._results, self._single = [], [], 0, [], []
        return pending

    def _measure_on_all_cores(self, results: _Results) -> None:
        table = np.frombuffer(self._queue, np.int64).reshape(-1, 2)
        first, last = results.used, results.used + len(table)
        rows, crcs = results.rows[first:last], results.crcs[first:last]
        with self._lock:  # numba's simplest scheduler takes one caller at a time
            blocks.measure_on_all_cores(table, self._exact, self._crc, rows, crcs, self._cores)
            if self._crc:
                _join(table, crcs)

    def _forget_queue(self) -> None:
        self._queue, self._queued_elements = array("q"), 0


class _HostReadings:
    """The measurements of a step's flushes, in rows that are still to be combined."""

    def __init__(
        self,
        owners: list[Any],
        counts: list[int],
        single: list[tuple[int, int]],
        results: list[_Results],
        *,
        checksums: bool,
    ) -> None:
        self._owners, self._counts, self._single = owners, counts, single
        self._results, self._checksums = results, checksums

    def __len__(self) -> int:
        return len(self._owners)

    def wait(self) -> list[Reading]:
        return list(self.wait_for_rows().readings())

    def wait_for_rows(self) -> MeasuredRows:
        counts, results = self._counts, self._results
        single = np.array(self._single, np.int64).reshape(-1, 2)
        rows, crcs = np.empty((len(counts), FIELDS)), np.empty(len(counts), np.uint32)
        is_measured = np.ones(len(counts), bool)
        is_measured[single[:, 0]] = False
        numbers = single[:, 1].astype(np.uint32).view(np.float32)
        rows[~is_measured] = _rows_of(numbers)
        if self._checksums:
            crcs[~is_measured] = [isal_zlib.crc32(number) for number in numbers]
        if results:
            rows[is_measured] = _combined(np.concatenate([part.rows[: part.used] for part in results]))
            crcs[is_measured] = np.concatenate([part.crcs[: part.used, 0] for part in results])
        return MeasuredRows(self._owners, np.array(counts, np.int64), rows, crcs if self._checksums else None)


def _rows_of(numbers: npt.NDArray[np.float32]) -> Rows:
    """Return a row for each number."""
    values = numbers.astype(np.float64)
    is_finite = np.isfinite(values)
    finite = np.where(is_finite, values, 0)
    rows = np.zeros((len(values), FIELDS))
    rows[:, SUM], rows[:, SQUARES] = finite, finite * finite
    rows[:, MAX] = np.where(is_finite, values, -np.inf)
    rows[:, MIN] = np.where(is_finite, values, np.inf)
    rows[:, ZEROS], rows[:, NANS] = values == 0, np.isnan(values)
    rows[:, INFS], rows[:, NEGATIVE_INFS] = values == np.inf, values == -np.inf
    return rows


@njit(nogil=True, cache=True)
def _join(table: Any, crcs: Any) -> None:
    """Put the checksum of each whole tensor where that of its first part is."""
    cores = crcs.shape[1]
    for index in range(table.shape[0]):
        count = table[index, 1]
        for core in range(1, cores):
            first, last = part_start(count, core, cores), part_start(count, core + 1, cores)
            crcs[index, 0] = joined(crcs[index, 0], crcs[index, core], _FLOAT_BYTES * (last - first))


def _checksum(address: int, count: int) -> int:
    return isal_zlib.crc32((ctypes.c_ubyte * (count * _FLOAT_BYTES)).from_address(address))


def _combined(rows: Rows) -> Rows:
    """Return one row for each tensor from the rows of its parts."""
    whole: Rows = rows.sum(axis=1)
    whole[:, MAX] = rows[:, :, MAX].max(axis=1)
    whole[:, MIN] = rows[:, :, MIN].min(axis=1)
    return whole
