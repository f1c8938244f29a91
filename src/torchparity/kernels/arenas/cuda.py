"""The arena of a CUDA device: few launches for each flush, one copy to the host for each step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from torchparity.kernels import row
from torchparity.kernels.arenas.contract import PendingReadings
from torchparity.kernels.arenas.cuda_buffers import LaunchTables, Results, Stretch, checksum_factors, stream_object
from torchparity.kernels.arenas.cuda_joiner import RowJoiner
from torchparity.kernels.arenas.cuda_kernels import LaunchKey, MeasuringKernels
from torchparity.kernels.layouts import Layout, layout_of
from torchparity.kernels.measured_rows import MeasuredRows, Reading
from torchparity.kernels.numba_loops.chunk_joins import joined_checksums
from torchparity.kernels.statistics import statistics_of_row
from torchparity.kernels.triton_launch import chunks, strides
from torchparity.kernels.triton_launch.chunks import chunk_of, programs_of
from torchparity.kernels.triton_launch.measure import FEW
from torchparity.records import Statistics

_KINDS = {
    "torch.float32": (chunks.FLOAT32, 4),
    "torch.float16": (chunks.FLOAT16, 2),
    "torch.bfloat16": (chunks.BFLOAT16, 2),
    "torch.int64": (chunks.INT64, 8),
    "torch.int32": (chunks.INT32, 4),
    "torch.int16": (chunks.INT16, 2),
    "torch.int8": (chunks.INT8, 1),
    "torch.uint8": (chunks.UINT8, 1),
    "torch.bool": (chunks.UINT8, 1),
}
_STRIDED = frozenset(
    {"torch.float32", "torch.float16", "torch.bfloat16"}
)  # read in place; checksums want all bytes in a row
_FLOAT8 = {"torch.float8_e4m3fn": (chunks.FLOAT8_E4M3, 1), "torch.float8_e5m2": (chunks.FLOAT8_E5M2, 1)}
_RESULT_ROWS = 1 << 16
_MOST_QUEUED = 4096
_MOST_COUNTS = 1 << 16
_FLOAT8_SINCE = (8, 9)
_ALIGNMENT = 16  # bytes that a thread loads at a time
_NO_TENSOR = [(0, 0) * (FEW - number) for number in range(FEW + 1)]  # arguments in place of those that are not there


class _Programs(dict[int, int]):
    """The programs of tensors by their number of elements, of which a model has few."""

    def __missing__(self, count: int) -> int:
        if len(self) >= _MOST_COUNTS:
            self.clear()
        programs = self[count] = int(programs_of(count))
        return programs


class CudaArena:
    """See `contract.Arena`. Only `PendingReadings.wait` waits for the device."""

    is_zero_copy = True

    def __init__(self, device: torch.device, *, exact: bool = False, checksums: bool) -> None:
        self._device, self._index = device, device.index or 0
        self._checksums = checksums
        capability = torch.cuda.get_device_capability(device)
        self._kinds = _KINDS | (_FLOAT8 if capability >= _FLOAT8_SINCE else {})
        self._kernels = MeasuringKernels(self._index, capability, exact=exact, checksums=checksums)
        self.dtypes = frozenset(self._kinds)
        self._keys_of = {
            dtype: (LaunchKey(*kind, is_aligned=False), LaunchKey(*kind, is_aligned=True))
            for dtype, kind in self._kinds.items()
        }
        self._strided = _STRIDED if strides.IS_SUPPORTED and not checksums else frozenset()
        self._factors = checksum_factors(device)
        self._factors_address = self._factors.data_ptr()
        self._programs = _Programs()
        self._keys: list[LaunchKey] = []
        self._addresses: list[int] = []
        self._counts: list[int] = []
        self._tables = LaunchTables(device)
        self._joiner = RowJoiner(device)
        self._current_stream = torch._C._cuda_getCurrentRawStream
        self._stream = -1
        self._stretch = self._begin()

    def layout_of(self, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], address: int) -> Layout | None:
        if dtype not in self._strided or address % _ALIGNMENT:
            return None
        return layout_of(shape, stride, _ALIGNMENT // self._kinds[dtype][1])

    def add(
        self, tensor: torch.Tensor, address: int, count: int, dtype: str, owner: Any, layout: Layout | None = None
    ) -> None:
        stream = self._current_stream(self._index)
        if stream != self._stream or len(self._counts) == _MOST_QUEUED:
            self.flush()
            self._stream = stream
        key = self._keys_of[dtype][address % _ALIGNMENT == 0]
        self._keys.append(key if layout is None else key._replace(elements=count, layout=layout))
        self._addresses.append(address)
        self._counts.append(count)
        stretch = self._stretch
        stretch.counts.append(count)
        stretch.dtypes.append(dtype)
        stretch.owners.append(owner)

    def add_all(
        self,
        tensors: Sequence[torch.Tensor],
        addresses: Sequence[int],
        counts: Sequence[int],
        dtype: str,
        owners: Sequence[Any],
    ) -> None:
        stream = self._current_stream(self._index)
        if stream != self._stream or len(self._counts) + len(counts) > _MOST_QUEUED:
            self.flush()
            self._stream = stream
        if len(counts) > _MOST_QUEUED:
            for tensor, address, count, owner in zip(tensors, addresses, counts, owners, strict=True):
                self.add(tensor, address, count, dtype, owner)
            return
        unaligned, aligned = self._keys_of[dtype]
        self._keys += [unaligned if address % _ALIGNMENT else aligned for address in addresses]
        self._addresses += addresses
        self._counts += counts
        self._stretch.counts += counts
        self._stretch.dtypes += repeat(dtype, len(counts))
        self._stretch.owners += owners

    def flush(self) -> None:
        """Launch kernels for each kind of tensors in the queue, on the stream the tensors were added on."""
        keys, addresses, counts = self._keys, self._addresses, self._counts
        if not keys:
            return
        first_rows = self._stretch.first_rows
        if keys.count(keys[0]) == len(keys):
            first_rows += self._measure(keys[0], addresses, counts)
        else:
            rows = [0] * len(keys)
            numbers_of: dict[LaunchKey, list[int]] = {}
            for number, key in enumerate(keys):
                numbers_of.setdefault(key, []).append(number)
            for key, numbers in numbers_of.items():
                first = self._measure(key, [addresses[n] for n in numbers], [counts[n] for n in numbers])
                for number, row_number in zip(numbers, first, strict=True):
                    rows[number] = row_number
            first_rows += rows
        self._keys, self._addresses, self._counts = [], [], []

    def drop(self) -> bool:
        lost = len(self._keys)
        if lost:
            stretch = self._stretch
            del stretch.counts[-lost:], stretch.dtypes[-lost:], stretch.owners[-lost:]
            self._keys, self._addresses, self._counts = [], [], []
        return lost > 0

    def try_out(self) -> None:
        """Raise where this machine cannot compile or launch; waits for nothing."""
        one = torch.ones(1, dtype=torch.float32, device=self._device)
        self.add(one, one.data_ptr(), 1, "torch.float32", None)
        self.flush()
        self._stretch = self._begin()

    def take(self) -> PendingReadings:
        self.flush()
        stretch = self._stretch
        if not stretch.owners:
            return _CudaReadings(self, Stretch([]), None)
        streams = {stream for part in stretch.results for stream in part.streams}
        current = torch._C._cuda_getCurrentRawStream(self._index)
        measured = None
        if streams == {current}:
            measured = torch.cuda.Event()  # type: ignore[no-untyped-call]
            measured.record(torch.cuda.current_stream(self._device))
        else:
            torch.cuda.synchronize(self._device)
        stretch.tables = self._tables.take()
        self._stretch = self._begin()
        return _CudaReadings(self, stretch, measured)

    def read(self, stretch: Stretch, measured: torch.cuda.Event | None) -> MeasuredRows:
        """Return the rows of a stretch, behind nobody's work; wait until it is `measured`, unless that was done."""
        counts, begins = np.array(stretch.counts, np.int64), np.array(stretch.first_rows, np.int64)
        programs = programs_of(counts)
        is_float = np.array([self._kinds[dtype][0] < chunks.INT64 for dtype in stretch.dtypes])
        whole = self._joiner.joined(stretch.results, begins, programs, is_float, measured)
        self._tables.give_back(stretch.tables)
        stretch.tables = []
        if np.isnan(whole[:, row.NEGATIVE_INFS]).any():
            raise RuntimeError("tensors on the device were not measured: a launch was lost")
        checksums = None
        if self._checksums:
            sizes = np.array([self._kinds[dtype][1] for dtype in stretch.dtypes], np.int64)
            parts = [self._joiner.copied(part.checksums[: part.used]) for part in stretch.results]
            remainders = np.concatenate(parts)
            checksums = joined_checksums(remainders, begins, begins + programs, counts, sizes, chunk_of(counts))
        of_integers = {
            index: _of_integers(stretch.counts[index], whole[index], stretch.dtypes[index])
            for index in np.flatnonzero(~is_float).tolist()
        }
        return MeasuredRows(stretch.owners, counts, whole, checksums, of_integers)

    def _begin(self) -> Stretch:
        self._stream = -1
        return Stretch([Results(_RESULT_ROWS, self._device, checksums=self._checksums)])

    def _measure(self, key: LaunchKey, addresses: list[int], counts: list[int]) -> list[int]:
        """Launch kernels over tensors of one key; return the first row of each, counted from the stretch's begin."""
        number = len(counts)
        if number <= FEW:
            return self._launch_few(key, addresses, counts)
        # Two launches take less than a table that has to be copied; there is none for strided tensors.
        if number <= 2 * FEW or key.layout:
            parts = [slice(begin, begin + FEW) for begin in range(0, number, FEW)]
            return [first for part in parts for first in self._launch_few(key, addresses[part], counts[part])]
        return self._launch_many(key, addresses, counts)

    def _launch_few(self, key: LaunchKey, addresses: list[int], counts: list[int]) -> list[int]:
        """Launch a kernel over up to `FEW` tensors, which are arguments of the launch."""
        programs = [self._programs[count] for count in counts]
        all_programs = sum(programs)
        results = self._room_for(all_programs)
        if key.layout:
            absent = (0,) * (FEW - len(counts))
            arguments = (*addresses, *absent, key.elements, *key.layout, results.next_row)
        else:
            absent = _NO_TENSOR[len(counts)]
            tensors = chain.from_iterable(zip(addresses, counts, strict=True))
            arguments = (*tensors, *absent, results.next_row, results.next_checksum, self._factors_address)
        self._kernels.few(key).launch(all_programs, self._stream, arguments)
        return results.use(programs)

    def _launch_many(self, key: LaunchKey, addresses: list[int], counts: list[int]) -> list[int]:
        """Launch a kernel over any number of tensors, which are in a table."""
        programs = list(map(self._programs.__getitem__, counts))
        all_programs = sum(programs)
        results = self._room_for(all_programs)
        starts = accumulate(programs[:-1], initial=0)
        table = self._tables.write([*starts, *addresses, *counts], self._stream)
        arguments = (table, len(counts), results.next_row, results.next_checksum, self._factors_address)
        self._kernels.many(key).launch(all_programs, self._stream, arguments)
        return results.use(programs)

    def _room_for(self, rows: int) -> Results:
        """Return the results that the next launch on the stream of the queue may write so many rows of."""
        results = self._stretch.results[-1]
        if results.used + rows > results.size:
            before = results.before + results.used
            results = Results(max(rows, _RESULT_ROWS), self._device, checksums=self._checksums, before=before)
            self._stretch.results.append(results)
        if self._stream not in results.streams:
            results.streams.add(self._stream)
            stream_object(self._stream, self._device).wait_event(results.filled)
        return results


class _CudaReadings:
    """A stretch that the device may still be measuring; `measured` is None where it was waited for."""

    def __init__(self, arena: CudaArena, stretch: Stretch, measured: torch.cuda.Event | None) -> None:
        self._arena, self._stretch, self._measured = arena, stretch, measured

    def __len__(self) -> int:
        return len(self._stretch.owners)

    def wait(self) -> list[Reading]:
        return list(self.wait_for_rows().readings())

    def wait_for_rows(self) -> MeasuredRows:
        if not self._stretch.owners:
            return MeasuredRows([], np.empty(0, np.int64), np.empty((0, row.FIELDS)))
        return self._arena.read(self._stretch, self._measured)


def _of_integers(count: int, whole: npt.NDArray[np.float64], dtype: str) -> Statistics:
    """Return the statistics of integers, whose extremes are the bits of an int64."""
    most, least = whole.view(np.int64)[row.EXTREMES].tolist()
    return statistics_of_row(count, whole.tolist(), (most, least), is_bool=dtype == "torch.bool")
