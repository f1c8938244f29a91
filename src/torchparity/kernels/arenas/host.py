"""Measuring many tensors with few launches: the contract, and the arena for tensors in host memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from numba import njit

from torchparity.kernels.numba_loops import blocks
from torchparity.kernels.numba_loops.cores import cores
from torchparity.kernels.numba_loops.crc import compiled_crc, joined
from torchparity.kernels.statistics import statistics_of_rows
from torchparity.records import Statistics

_SHARED_FROM = 1 << 16  # numbers from which a second core is worth waking
_FLOAT_BYTES = 4
_RESULT_ROWS = 1024
Reading = tuple[Any, Statistics, str | None]  # whose it is, and what was measured
Rows = npt.NDArray[np.float64]
Checksums = npt.NDArray[np.uint32]


class Arena(Protocol):
    """Measures tensors of one device by address; the caller keeps them alive and unchanged until `flush`.

    `add` takes the address and the count of a tensor that is dense in memory and not empty, and who wants to know,
    `add_all` those of many tensors of one dtype; `flush` measures all that were added, or orders it done where the
    device works by itself; `take` begins anew and returns who waits for that and tells the readings in the order of
    `add`, in another thread if need be. Where `flush` raised, `drop` forgets what it did not measure, since it may be
    gone by the next time, and tells whether there was any.
    """

    dtypes: frozenset[str]

    def add(self, address: int, count: int, dtype: str, owner: Any) -> None: ...

    def add_all(self, addresses: Sequence[int], counts: Sequence[int], dtype: str, owners: Sequence[Any]) -> None: ...

    def flush(self) -> None: ...

    def drop(self) -> bool: ...

    def take(self) -> Callable[[], list[Reading]]: ...


class _Results:
    """Rows and checksums for a stretch of the step.

    In few large pieces: small ones that last until the step ends would lie between the
    user's tensors, and where those were freed no other would fit.
    """

    def __init__(self, rows: int, cores: int) -> None:
        self.rows, self.crcs = np.zeros((rows, cores, blocks.ROW)), np.zeros((rows, cores), np.uint32)
        self.rows[:, :, blocks.MAX], self.rows[:, :, blocks.MIN] = -np.inf, np.inf
        self.used = 0

    def has_room_for(self, rows: int) -> bool:
        return self.used + rows <= len(self.rows)

    def next(self, rows: int) -> tuple[Rows, Checksums]:
        return self.rows[self.used : self.used + rows], self.crcs[self.used : self.used + rows]


class HostArena:
    """float32 in host memory: all tensors of a flush in one compiled call, their checksums in the same pass."""

    dtypes = frozenset({"torch.float32"})

    def __init__(self, *, exact: bool, checksums: bool) -> None:
        self._exact, self._checksums = exact, checksums
        self._crc = compiled_crc() if checksums else 0
        self._cores = cores()
        self._lock = threading.Lock()
        self._waiting: list[int] = []
        self._waiting_count = 0
        self._counts: list[int] = []
        self._owners: list[Any] = []
        self._done = 0  # how many of them are measured
        self._results: list[_Results] = []
        self._alone: list[tuple[int, int]] = []  # tensors of one number: their place and the number's bits

    def add(self, address: int, count: int, dtype: str, owner: Any) -> None:
        self._owners.append(owner)
        if count == 1:  # reading it takes less than anything else
            self._alone.append((len(self._counts), ctypes.c_uint32.from_address(address).value))
            self._counts.append(1)
            return
        self._waiting += (address, count)
        self._waiting_count += count
        self._counts.append(count)

    def add_all(self, addresses: Sequence[int], counts: Sequence[int], dtype: str, owners: Sequence[Any]) -> None:
        if 1 in counts:
            for address, count, owner in zip(addresses, counts, owners, strict=True):
                self.add(address, count, dtype, owner)
            return
        self._owners += owners
        self._waiting += chain.from_iterable(zip(addresses, counts, strict=True))
        self._waiting_count += sum(counts)
        self._counts += counts

    def flush(self) -> None:
        if not self._waiting:
            self._done = len(self._counts)
            return
        table = np.array(self._waiting, np.int64).reshape(-1, 2)
        if not self._results or not self._results[-1].has_room_for(len(table)):
            self._results.append(_Results(max(_RESULT_ROWS, len(table)), self._cores))
        results = self._results[-1]
        rows, crcs = results.next(len(table))
        if self._waiting_count < _SHARED_FROM or self._cores == 1:
            blocks.measure_part(table, self._exact, self._crc, rows, crcs, 0, 1)
        else:
            with self._lock:  # numba's simplest scheduler takes one caller at a time
                blocks.measure_on_all_cores(table, self._exact, self._crc, rows, crcs, self._cores)
                if self._crc:
                    _join(table, crcs)
        if self._checksums and not self._crc:
            crcs[:, 0] = [_checksum(*entry) for entry in table.tolist()]
        results.used += len(table)
        self._waiting, self._waiting_count = [], 0
        self._done = len(self._counts)

    def drop(self) -> bool:
        if not self._waiting:
            return False
        self._waiting, self._waiting_count = [], 0
        del self._counts[self._done :], self._owners[self._done :]
        self._alone = [entry for entry in self._alone if entry[0] < self._done]
        return True

    def take(self) -> Callable[[], list[Reading]]:
        self.flush()
        entries = self._owners, self._counts, self._alone
        readings = partial(_readings, *entries, self._results, checksums=self._checksums)
        self._owners, self._counts, self._done, self._results, self._alone = [], [], 0, [], []
        return readings


def _readings(
    owners: list[Any], counts: list[int], singles: list[tuple[int, int]], results: list[_Results], *, checksums: bool
) -> list[Reading]:
    alone = np.array(singles, np.int64).reshape(-1, 2)
    rows, crcs = np.empty((len(counts), blocks.ROW)), np.empty(len(counts), np.uint32)
    is_measured = np.ones(len(counts), bool)
    is_measured[alone[:, 0]] = False
    numbers = alone[:, 1].astype(np.uint32).view(np.float32)
    rows[~is_measured] = _rows_of(numbers)
    if checksums:
        crcs[~is_measured] = [isal_zlib.crc32(number) for number in numbers]
    if results:
        rows[is_measured] = _combined(np.concatenate([part.rows[: part.used] for part in results]))
        crcs[is_measured] = np.concatenate([part.crcs[: part.used, 0] for part in results])
    statistics = statistics_of_rows(np.array(counts, np.int64), rows)
    known = [f"{crc:08x}" for crc in crcs.tolist()] if checksums else [None] * len(counts)
    return list(zip(owners, statistics, known, strict=True))


def _rows_of(numbers: npt.NDArray[np.float32]) -> Rows:
    """Return a row for each number."""
    values = numbers.astype(np.float64)
    is_finite = np.isfinite(values)
    finite = np.where(is_finite, values, 0)
    rows = np.zeros((len(values), blocks.ROW))
    rows[:, blocks.SUM], rows[:, blocks.SQUARES] = finite, finite * finite
    rows[:, blocks.MAX] = np.where(is_finite, values, -np.inf)
    rows[:, blocks.MIN] = np.where(is_finite, values, np.inf)
    rows[:, blocks.ZEROS], rows[:, blocks.NANS] = values == 0, np.isnan(values)
    rows[:, blocks.INFS], rows[:, blocks.NEGATIVE_INFS] = values == np.inf, values == -np.inf
    return rows


@njit(nogil=True, cache=True)
def _join(table: Any, crcs: Any) -> None:
    """Put the checksum of each whole tensor where that of its first part is."""
    cores = crcs.shape[1]
    for index in range(table.shape[0]):
        count = table[index, 1]
        for core in range(1, cores):
            first, last = count * core // cores, count * (core + 1) // cores
            crcs[index, 0] = joined(crcs[index, 0], crcs[index, core], _FLOAT_BYTES * (last - first))


def _checksum(address: int, count: int) -> int:
    return isal_zlib.crc32((ctypes.c_ubyte * (count * _FLOAT_BYTES)).from_address(address))


def _combined(rows: Rows) -> Rows:
    """Return one row for each tensor from the rows of its parts."""
    whole: Rows = rows.sum(axis=1)
    whole[:, blocks.MAX] = rows[:, :, blocks.MAX].max(axis=1)
    whole[:, blocks.MIN] = rows[:, :, blocks.MIN].min(axis=1)
    return whole
