"""The arena for tensors in host memory: one compiled call for all tensors of a flush."""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

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
        self.size, self.used = rows, 0
        self._rows_at, self._crcs_at = self.rows.ctypes.data, self.crcs.ctypes.data
        self._row_bytes, self._crc_bytes = self.rows.strides[0], self.crcs.strides[0]

    def addresses(self, row: int) -> tuple[int, int]:
        """Return where a row and its checksum are."""
        return self._rows_at + row * self._row_bytes, self._crcs_at + row * self._crc_bytes


class _Entry(NamedTuple):
    """A tensor in the queue, which keeps it alive."""

    address: int
    elements: int
    owner: Any
    tensor: Any


class _Flushed(NamedTuple):
    """The tensors of one flush in their order; those of more than one element have rows in `results`."""

    results: _Results | None
    first_row: int
    counts: Sequence[int]
    owners: Sequence[Any]
    single: Sequence[tuple[int, int]] = ()  # tensors of one element: their place, and the element's bits


class _Step:
    """All that was flushed since the last step."""

    def __init__(self) -> None:
        self.results: list[_Results] = []
        self.flushed: list[_Flushed] = []


class HostArena:
    """See `contract.Arena`; float32 only, checksums in the same pass.

    The handler of a signal may raise between two calls, or add and flush tensors of its own: queue and rows are taken
    without a call in between, and before anything is written.
    """

    dtypes = frozenset({"torch.float32"})
    is_zero_copy = True

    def __init__(self, *, exact: bool, checksums: bool) -> None:
        self._exact, self._checksums = exact, checksums
        self._crc = compiled_crc() if checksums else 0
        self._cores = cores()
        self._lock = threading.RLock()
        self._queue: list[_Entry] = []
        self._step = _Step()

    def layout_of(self, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], address: int) -> Layout | None:
        return None

    def add(
        self, tensor: torch.Tensor, address: int, count: int, dtype: str, owner: Any, layout: Layout | None = None
    ) -> None:
        entry = _Entry(address, count, owner, tensor)
        self._queue.append(entry)

    def add_all(
        self,
        tensors: Sequence[torch.Tensor],
        addresses: Sequence[int],
        counts: Sequence[int],
        dtype: str,
        owners: Sequence[Any],
    ) -> None:
        entries = list(map(_Entry, addresses, counts, owners, tensors))
        self._queue += entries

    def flush(self) -> None:
        queue, self._queue = self._queue, []
        if queue:
            try:
                self._step.flushed.append(self._measured(queue))
            except BaseException:
                self._queue = queue + self._queue
                raise

    def try_out(self) -> None:
        """Compile what `flush` calls, or load what was compiled before."""
        nothing = _Results(0, self._cores)
        blocks.measure_at(0, 0, self._exact, self._crc, *nothing.addresses(0), self._cores)

    def drop(self) -> bool:
        lost, self._queue = self._queue, []
        return bool(lost)

    def take(self) -> PendingReadings:
        self.flush()
        step, self._step = self._step, _Step()
        return _HostReadings(step, checksums=self._checksums)

    def _measured(self, queue: list[_Entry]) -> _Flushed:
        """Measure tensors; reading a single element takes less time than a compiled call."""
        addresses, counts, owners, _ = zip(*queue, strict=True)
        if 1 not in counts:
            return _Flushed(*self._measure(addresses, counts), counts, owners)
        single = [(place, _bits_at(entry.address)) for place, entry in enumerate(queue) if entry.elements == 1]
        others = [entry[:2] for entry in queue if entry.elements > 1]
        results, first_row = self._measure(*zip(*others, strict=True)) if others else (None, 0)
        return _Flushed(results, first_row, counts, owners, single)

    def _measure(self, addresses: tuple[int, ...], counts: tuple[int, ...]) -> tuple[_Results, int]:
        """Fill a row for each tensor; return where they are, and the first."""
        number = len(counts)
        results, first = self._take_rows(number)
        table = array("q", chain.from_iterable(zip(addresses, counts, strict=True)))
        if self._cores == 1 or sum(counts) < PARALLEL_FROM:
            address, _ = table.buffer_info()
            blocks.measure_at(address, number, self._exact, self._crc, *results.addresses(first), self._cores)
        else:
            self._measure_on_all_cores(table, results, first)
        if self._checksums and not self._crc:
            results.crcs[first : first + number, 0] = list(map(_checksum, addresses, counts))
        return results, first

    def _take_rows(self, number: int) -> tuple[_Results, int]:
        """Return rows that are nobody else's: where they are, and the first."""
        pieces = self._step.results
        while not pieces or pieces[-1].used + number > pieces[-1].size:
            pieces.append(_Results(max(_RESULT_ROWS, number), self._cores))
        results = pieces[-1]
        first, results.used = results.used, results.used + number
        return results, first

    def _measure_on_all_cores(self, table: array[int], results: _Results, first: int) -> None:
        tensors = np.frombuffer(table, np.int64).reshape(-1, 2)
        last = first + len(tensors)
        rows, crcs = results.rows[first:last], results.crcs[first:last]
        with self._lock:  # numba's simplest scheduler takes one caller at a time
            blocks.measure_on_all_cores(tensors, self._exact, self._crc, rows, crcs, self._cores)
            if self._crc:
                _join(tensors, crcs)


class _HostReadings:
    """The measurements of a step's flushes, in rows that are still to be combined."""

    def __init__(self, step: _Step, *, checksums: bool) -> None:
        self._step, self._checksums = step, checksums
        self._tensors = sum(len(each.counts) for each in step.flushed)

    def __len__(self) -> int:
        return self._tensors

    def wait(self) -> list[Reading]:
        return list(self.wait_for_rows().readings())

    def wait_for_rows(self) -> MeasuredRows:
        flushed, results = self._step.flushed, self._step.results
        counts = list(chain.from_iterable([each.counts for each in flushed]))
        owners = list(chain.from_iterable([each.owners for each in flushed]))
        single = np.array(_single_of(flushed), np.int64).reshape(-1, 2)
        measured = np.array(_rows_of_flushes(flushed, results), np.int64)
        rows, crcs = np.empty((len(counts), FIELDS)), np.empty(len(counts), np.uint32)
        is_measured = np.ones(len(counts), bool)
        is_measured[single[:, 0]] = False
        numbers = single[:, 1].astype(np.uint32).view(np.float32)
        rows[~is_measured] = _rows_of(numbers)
        if self._checksums:
            crcs[~is_measured] = [isal_zlib.crc32(number) for number in numbers]
        if len(measured):
            rows[is_measured] = _combined(np.concatenate([part.rows[: part.used] for part in results])[measured])
            crcs[is_measured] = np.concatenate([part.crcs[: part.used, 0] for part in results])[measured]
        return MeasuredRows(owners, np.array(counts, np.int64), rows, crcs if self._checksums else None)


def _single_of(flushed: Sequence[_Flushed]) -> list[tuple[int, int]]:
    """Return the tensors of one element among all of a step: their place, and the element's bits."""
    starts = accumulate([len(each.counts) for each in flushed], initial=0)
    return [(start + place, bits) for start, each in zip(starts, flushed, strict=False) for place, bits in each.single]


def _rows_of_flushes(flushed: Sequence[_Flushed], pieces: Sequence[_Results]) -> list[int]:
    """Return the numbers of the rows of the other tensors, counted over all pieces."""
    starts = dict(zip(map(id, pieces), accumulate([piece.used for piece in pieces], initial=0), strict=False))
    numbers: list[int] = []
    for each in flushed:
        if each.results is not None:
            first = starts[id(each.results)] + each.first_row
            numbers += range(first, first + len(each.counts) - len(each.single))
    return numbers


def _bits_at(address: int) -> int:
    return ctypes.c_uint32.from_address(address).value


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
