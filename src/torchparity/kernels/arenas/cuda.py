"""The arena of a CUDA device: a launch for each flush, one copy to the host for each step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from typing import Any

import numpy as np
import torch

from torchparity.kernels import row
from torchparity.kernels.arenas.contract import PendingReadings, Reading
from torchparity.kernels.arenas.cuda_buffers import Results, Stretch, Table, checksum_factors
from torchparity.kernels.cuda_waiting import copied_to_host, wait_for
from torchparity.kernels.numba_loops.chunk_joins import joined_checksums, joined_rows
from torchparity.kernels.statistics import statistics_of_rows
from torchparity.kernels.triton_launch import measure as kernel

_KINDS = {
    "torch.float32": (kernel.FLOAT32, 4),
    "torch.float16": (kernel.FLOAT16, 2),
    "torch.bfloat16": (kernel.BFLOAT16, 2),
    "torch.int64": (kernel.INT64, 8),
    "torch.int32": (kernel.INT32, 4),
    "torch.int16": (kernel.INT16, 2),
    "torch.int8": (kernel.INT8, 1),
    "torch.uint8": (kernel.UINT8, 1),
    "torch.bool": (kernel.UINT8, 1),
}
_FLOAT8 = {"torch.float8_e4m3fn": (kernel.FLOAT8_E4M3, 1), "torch.float8_e5m2": (kernel.FLOAT8_E5M2, 1)}
_ENTRY_WORDS = 5  # of a tensor in a launch's table
_TABLE_WORDS = 1 << 17
_LINE = 16  # words of a cache line, which no two tables share
_RESULT_ROWS = 1 << 16
_FEW = 8  # tensors whose table is read faster from pinned host memory than after a copy
_ROW_SIZES = (8, 64, 512, 4096)
_FLOAT8_SINCE = (8, 9)
_WARPS = 8


class CudaArena:
    """See `contract.Arena`. Only `PendingReadings.wait` waits for the device."""

    is_zero_copy = True

    def __init__(self, device: torch.device, *, checksums: bool) -> None:
        self._device, self._index = device, device.index or 0
        self._checksums = checksums
        self._has_float8 = torch.cuda.get_device_capability(device) >= _FLOAT8_SINCE
        self._kinds = _KINDS | (_FLOAT8 if self._has_float8 else {})
        self.dtypes = frozenset(self._kinds)
        self._factors = checksum_factors(device)
        self._compiled: dict[int, tuple[Any, Any, Any]] = {}  # the launcher, the kernel and its metadata
        self._queue: list[int] = []
        self._queued_chunks = 0
        self._spare: list[Table] = []
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream, self._table_used = -1, 0
        self._stretch = self._begin()

    def add(self, tensor: torch.Tensor, address: int, count: int, dtype: str, owner: Any) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        if stream != self._stream or len(self._queue) == _ENTRY_WORDS * _ROW_SIZES[-1]:
            self.flush()
            self._stream = stream
        kind, size = self._kinds[dtype]
        self._queue += (address, count, kind, size, self._queued_chunks)
        self._queued_chunks += -(-count // kernel.CHUNK)
        self._stretch.entries.append((count, dtype))
        self._stretch.owners.append(owner)

    def add_all(
        self,
        tensors: Sequence[torch.Tensor],
        addresses: Sequence[int],
        counts: Sequence[int],
        dtype: str,
        owners: Sequence[Any],
    ) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        if stream != self._stream or len(self._queue) + _ENTRY_WORDS * len(counts) > _ENTRY_WORDS * _ROW_SIZES[-1]:
            self.flush()
            self._stream = stream
        if len(counts) > _ROW_SIZES[-1]:
            for tensor, address, count, owner in zip(tensors, addresses, counts, owners, strict=True):
                self.add(tensor, address, count, dtype, owner)
            return
        kind, size = self._kinds[dtype]
        ends = list(accumulate((-(-count // kernel.CHUNK) for count in counts), initial=self._queued_chunks))
        self._queue += chain.from_iterable(
            zip(addresses, counts, repeat(kind), repeat(size), ends)  # the last end starts no tensor
        )
        self._queued_chunks = ends[-1]
        self._stretch.entries += zip(counts, repeat(dtype))
        self._stretch.owners += owners

    def flush(self) -> None:
        """Launch the kernel over the queue, on the stream the tensors were added on."""
        if not self._queue:
            return
        rows, chunks = len(self._queue) // _ENTRY_WORDS, self._queued_chunks
        table = self._write_table(rows)
        results = self._room_for(chunks)
        if self._stream not in results.streams:
            results.streams.add(self._stream)
            self._stream_object().wait_event(results.filled)
        first_row, first_checksum = results.addresses
        arguments = (
            table,
            rows,
            first_row + results.used * row.FIELDS * 8,
            first_checksum + (results.used * 4 if self._checksums else 0),
            self._factors.data_ptr(),
        )
        self._launch(rows, chunks, arguments)
        results.used += chunks
        self._queue, self._queued_chunks = [], 0

    def drop(self) -> bool:
        lost = len(self._queue) // _ENTRY_WORDS
        if lost:
            del self._stretch.entries[-lost:], self._stretch.owners[-lost:]
            self._queue, self._queued_chunks = [], 0
        return lost > 0

    def try_out(self) -> None:
        """Raise where this machine cannot compile or launch; waits for nothing."""
        one = torch.ones(1, device=self._device)
        self.add(one, one.data_ptr(), 1, "torch.float32", None)
        self.flush()
        tables, used = self._stretch.tables, self._table_used  # the launch may still read its table
        self._stretch = self._begin()
        self._stretch.tables, self._table_used = tables, used

    def take(self) -> PendingReadings:
        self.flush()
        stretch = self._stretch
        if not stretch.entries:
            return _CudaReadings(self, Stretch([]), None)
        streams = {stream for part in stretch.results for stream in part.streams}
        current = torch._C._cuda_getCurrentRawStream(self._index)
        is_done = None
        if streams == {current}:
            is_done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            is_done.record(torch.cuda.current_stream(self._device))
        else:
            torch.cuda.synchronize(self._device)
        self._stretch = self._begin()
        return _CudaReadings(self, stretch, is_done)

    def read(self, stretch: Stretch) -> list[Reading]:
        """Return the readings of a stretch that is done; copied on a stream of its own, behind nobody's work."""
        self._spare += stretch.tables  # no launch reads them any more
        stretch.tables = []
        results = stretch.results
        rows = np.concatenate([copied_to_host(part.rows[: part.used], self._copies).numpy() for part in results])
        with_checksums = results if self._checksums else []
        parts = [copied_to_host(part.checksums[: part.used], self._copies).numpy() for part in with_checksums]
        if np.isnan(rows[:, row.NEGATIVE_INFS]).any():
            raise RuntimeError("tensors on the device were not measured: a launch was lost")
        counts = np.array([count for count, _ in stretch.entries], np.int64)
        chunks = -(-counts // kernel.CHUNK)
        ends = np.cumsum(chunks)
        is_float = np.array([dtype.startswith(("torch.float", "torch.bfloat")) for _, dtype in stretch.entries])
        whole = joined_rows(rows, ends - chunks, ends, is_float)
        checksums: list[str | None] = [None] * len(counts)
        if parts:
            sizes = np.array([self._kinds[dtype][1] for _, dtype in stretch.entries], np.int64)
            remainders = np.concatenate(parts).view(np.uint32)
            crcs = joined_checksums(remainders, ends - chunks, ends, counts, sizes, kernel.CHUNK)
            checksums = [f"{crc:08x}" for crc in crcs.tolist()]
        integer_extremes = [
            None if float_entry else ((most, least), dtype == "torch.bool")
            for float_entry, (most, least), (_, dtype) in zip(
                is_float.tolist(), whole.view(np.int64)[:, row.EXTREMES].tolist(), stretch.entries, strict=True
            )
        ]
        return list(zip(stretch.owners, statistics_of_rows(counts, whole, integer_extremes), checksums, strict=True))

    def _begin(self) -> Stretch:
        self._stream, self._table_used = -1, 0
        return Stretch([Results(_RESULT_ROWS, self._device, checksums=self._checksums)])

    def _room_for(self, chunks: int) -> Results:
        results = self._stretch.results[-1]
        if results.used + chunks > len(results.rows):
            results = Results(max(chunks, _RESULT_ROWS), self._device, checksums=self._checksums)
            self._stretch.results.append(results)
        return results

    def _table_for(self, words: int) -> Table:
        """Return a table with so many free words, which no earlier launch still reads."""
        tables = self._stretch.tables
        if not tables or self._table_used + words > len(tables[-1].words):
            is_usual = words <= _TABLE_WORDS
            tables.append(
                self._spare.pop() if is_usual and self._spare else Table(max(words, _TABLE_WORDS), self._device)
            )
            self._table_used = 0
        return tables[-1]

    def _write_table(self, rows: int) -> int:
        """Write the entries; return the address for the device."""
        words_needed = rows * _ENTRY_WORDS
        table = self._table_for(words_needed)
        pinned, on_device, words = table.pinned, table.on_device, table.words
        first, last = self._table_used, self._table_used + words_needed
        words[first:last] = self._queue
        self._table_used = -(-last // _LINE) * _LINE
        if rows <= _FEW:
            return int(pinned.data_ptr()) + first * 8
        target, source = on_device[first:last], pinned[first:last]
        if torch._C._cuda_getCurrentRawStream(self._index) == self._stream:
            target.copy_(source, non_blocking=True)
        else:
            with torch.cuda.stream(self._stream_object()):
                target.copy_(source, non_blocking=True)
        return int(on_device.data_ptr()) + first * 8

    def _stream_object(self) -> Any:
        if self._stream == 0:  # ExternalStream(0) would be another stream
            return torch.cuda.default_stream(self._device)
        return torch.cuda.ExternalStream(self._stream, self._device)  # type: ignore[no-untyped-call]

    def _launch(self, rows: int, chunks: int, arguments: tuple[int, ...]) -> None:
        """Launch on this device; Triton loads a kernel for the current device, which may be another."""
        if torch._C._cuda_getDevice() == self._index:
            self._launch_here(rows, chunks, arguments)
        else:
            with torch.cuda.device(self._device):
                self._launch_here(rows, chunks, arguments)

    def _launch_here(self, rows: int, chunks: int, arguments: tuple[int, ...]) -> None:
        """Launch on the stream the tensors were added on; Triton's own launch takes the current stream."""
        size = _ROW_SIZES[bisect_left(_ROW_SIZES, rows)]
        constants = size, self._checksums, self._has_float8
        launcher = self._compiled.get(size)
        if launcher is None:
            compiled = kernel.measure.warmup(*arguments, *constants, num_warps=_WARPS, grid=(chunks,))
            run = compiled.run  # loads the kernel
            launcher = self._compiled[size] = run, compiled.function, compiled.packed_metadata
        run, function, metadata = launcher
        run(chunks, 1, 1, self._stream, function, metadata, None, None, None, *arguments, *constants)


class _CudaReadings:
    """A stretch that the device may still be measuring; `is_done` is None where it was waited for."""

    def __init__(self, arena: CudaArena, stretch: Stretch, is_done: torch.cuda.Event | None) -> None:
        self._arena, self._stretch, self._is_done = arena, stretch, is_done

    def __len__(self) -> int:
        return len(self._stretch.entries)

    def wait(self) -> list[Reading]:
        if not self._stretch.entries:
            return []
        if self._is_done is not None:
            wait_for(self._is_done)
        return self._arena.read(self._stretch)
