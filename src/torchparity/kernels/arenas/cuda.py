"""Statistics and checksums of tensors on a CUDA device: a launch for each call, one copy to the host for each step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate, chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from torchparity.kernels.arenas.cuda_waiting import copied_to_host, wait_for
from torchparity.kernels.arenas.host import Reading
from torchparity.kernels.numba_loops.chunk_joins import joined_checksums, joined_rows
from torchparity.kernels.numba_loops.crc import after_zeros, times
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
_FIELDS = 5
_TABLE_WORDS = 1 << 17
_LINE = 16  # words of a cache line: tables of two launches share none
_RESULT_ROWS = 1 << 16
_FEW = 8  # tensors whose table a launch reads from the host's memory faster than a copy could be ordered
_ROW_SIZES = (8, 64, 512, 4096)
_FLOAT8_SINCE = (8, 9)
_WARPS = 8


class _Results:
    """Rows on the device for a stretch of the step."""

    def __init__(self, rows: int, device: torch.device, *, checksums: bool) -> None:
        # A row that no program wrote must not look like one: counts are never nan.
        self.rows = torch.full((rows, kernel.COLUMNS), torch.nan, dtype=torch.float64, device=device)
        self.checksums = torch.empty(rows if checksums else 1, dtype=torch.int32, device=device)
        self.addresses = self.rows.data_ptr(), self.checksums.data_ptr()
        self.used = 0
        # The rows are filled on the stream that is current now; a launch on another must come after that.
        self.streams = {torch._C._cuda_getCurrentRawStream(self.rows.device.index)}
        self.filled = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.filled.record(torch.cuda.current_stream(device))


class _Table:
    """Where launches read what to measure: pinned memory, and as much on the device."""

    def __init__(self, words: int, device: torch.device) -> None:
        self.pinned = torch.empty(words, dtype=torch.int64, pin_memory=True)
        self.on_device = torch.empty_like(self.pinned, device=device, pin_memory=False)
        self.words: npt.NDArray[np.int64] = self.pinned.numpy()


@dataclass
class _Stretch:
    """What is measured between two takes."""

    results: list[_Results]
    tables: list[_Table] = field(default_factory=list)
    entries: list[tuple[int, str]] = field(default_factory=list)
    owners: list[Any] = field(default_factory=list)


class CudaArena:
    """See the contract in `arenas/__init__.py`. Nothing here waits for the device but who reads what was taken."""

    def __init__(self, device: torch.device, *, checksums: bool) -> None:
        self._device, self._index = device, device.index or 0
        self._checksums = checksums
        self._has_float8 = torch.cuda.get_device_capability(device) >= _FLOAT8_SINCE
        self._kinds = _KINDS | (_FLOAT8 if self._has_float8 else {})
        self.dtypes = frozenset(self._kinds)
        self._factors = _factors(device)
        self._compiled: dict[int, tuple[Any, Any, Any]] = {}  # what launches, the kernel, and what Triton says of it
        self._waiting: list[int] = []
        self._waiting_chunks = 0
        self._spare: list[_Table] = []
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream, self._table_used = -1, 0
        self._stretch = self._begin()

    def add(self, address: int, count: int, dtype: str, owner: Any) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        if stream != self._stream or len(self._waiting) == _FIELDS * _ROW_SIZES[-1]:
            self.flush()
            self._stream = stream
        kind, size = self._kinds[dtype]
        self._waiting += (address, count, kind, size, self._waiting_chunks)
        self._waiting_chunks += -(-count // kernel.CHUNK)
        self._stretch.entries.append((count, dtype))
        self._stretch.owners.append(owner)

    def add_all(self, addresses: Sequence[int], counts: Sequence[int], dtype: str, owners: Sequence[Any]) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        if stream != self._stream or len(self._waiting) + _FIELDS * len(counts) > _FIELDS * _ROW_SIZES[-1]:
            self.flush()
            self._stream = stream
        if len(counts) > _ROW_SIZES[-1]:
            for address, count, owner in zip(addresses, counts, owners, strict=True):
                self.add(address, count, dtype, owner)
            return
        kind, size = self._kinds[dtype]
        ends = list(accumulate((-(-count // kernel.CHUNK) for count in counts), initial=self._waiting_chunks))
        self._waiting += chain.from_iterable(
            zip(addresses, counts, repeat(kind), repeat(size), ends)  # the last end begins nothing
        )
        self._waiting_chunks = ends[-1]
        self._stretch.entries += zip(counts, repeat(dtype))
        self._stretch.owners += owners

    def flush(self) -> None:
        """Order everything that waits to be measured, on the stream it was added on."""
        if not self._waiting:
            return
        rows, chunks = len(self._waiting) // _FIELDS, self._waiting_chunks
        table = self._write_table(rows)
        results = self._room_for(chunks)
        if self._stream not in results.streams:
            results.streams.add(self._stream)
            self._stream_object().wait_event(results.filled)
        first_row, first_checksum = results.addresses
        arguments = (
            table,
            rows,
            first_row + results.used * kernel.COLUMNS * 8,
            first_checksum + (results.used * 4 if self._checksums else 0),
            self._factors.data_ptr(),
        )
        self._launch(rows, chunks, arguments)
        results.used += chunks
        self._waiting, self._waiting_chunks = [], 0

    def drop(self) -> bool:
        lost = len(self._waiting) // _FIELDS
        if lost:
            del self._stretch.entries[-lost:], self._stretch.owners[-lost:]
            self._waiting, self._waiting_chunks = [], 0
        return lost > 0

    def try_out(self) -> None:
        """Raise where this machine cannot compile or launch; waits for nothing."""
        one = torch.ones(1, device=self._device)
        self.add(one.data_ptr(), 1, "torch.float32", None)
        self.flush()
        tables, used = self._stretch.tables, self._table_used  # the launch may still read its table
        self._stretch = self._begin()
        self._stretch.tables, self._table_used = tables, used

    def take(self) -> Callable[[], list[Reading]]:
        self.flush()
        done = self._stretch
        if not done.entries:
            return list
        streams = {stream for part in done.results for stream in part.streams}
        current = torch._C._cuda_getCurrentRawStream(self._index)
        is_done = None
        if streams == {current}:
            is_done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            is_done.record(torch.cuda.current_stream(self._device))
        else:
            torch.cuda.synchronize(self._device)
        self._stretch = self._begin()
        return partial(self._read, done, is_done)

    def _read(self, done: _Stretch, is_done: torch.cuda.Event | None) -> list[Reading]:
        """Wait for a stretch and return its readings; a copy on a stream of our own does not wait for what follows."""
        if is_done is not None:
            wait_for(is_done)
        self._spare += done.tables  # no launch reads them any more
        rows = np.concatenate([copied_to_host(part.rows[: part.used], self._copies).numpy() for part in done.results])
        with_checksums = done.results if self._checksums else []
        parts = [copied_to_host(part.checksums[: part.used], self._copies).numpy() for part in with_checksums]
        if np.isnan(rows[:, kernel.COLUMNS - 1]).any():
            raise RuntimeError("tensors on the device were not measured: a launch was lost")
        counts = np.array([count for count, _ in done.entries], np.int64)
        chunks = -(-counts // kernel.CHUNK)
        ends = np.cumsum(chunks)
        is_float = np.array([dtype.startswith(("torch.float", "torch.bfloat")) for _, dtype in done.entries])
        whole = joined_rows(rows, ends - chunks, ends, is_float)
        checksums: list[str | None] = [None] * len(counts)
        if parts:
            sizes = np.array([self._kinds[dtype][1] for _, dtype in done.entries], np.int64)
            remainders = np.concatenate(parts).view(np.uint32)
            crcs = joined_checksums(remainders, ends - chunks, ends, counts, sizes, kernel.CHUNK)
            checksums = [f"{crc:08x}" for crc in crcs.tolist()]
        extremes = whole.view(np.int64)[:, 2:4].tolist()
        known = [
            None if is_known else ((most, least), dtype == "torch.bool")
            for is_known, (most, least), (_, dtype) in zip(is_float.tolist(), extremes, done.entries, strict=True)
        ]
        return list(zip(done.owners, statistics_of_rows(counts, whole, known), checksums, strict=True))

    def _begin(self) -> _Stretch:
        self._stream, self._table_used = -1, 0
        return _Stretch([_Results(_RESULT_ROWS, self._device, checksums=self._checksums)])

    def _room_for(self, chunks: int) -> _Results:
        results = self._stretch.results[-1]
        if results.used + chunks > len(results.rows):
            results = _Results(max(chunks, _RESULT_ROWS), self._device, checksums=self._checksums)
            self._stretch.results.append(results)
        return results

    def _table_for(self, words: int) -> _Table:
        """Return a table with room for so many words where no earlier launch still reads."""
        tables = self._stretch.tables
        if not tables or self._table_used + words > len(tables[-1].words):
            is_usual = words <= _TABLE_WORDS
            tables.append(
                self._spare.pop() if is_usual and self._spare else _Table(max(words, _TABLE_WORDS), self._device)
            )
            self._table_used = 0
        return tables[-1]

    def _write_table(self, rows: int) -> int:
        """Write the entries; return the address for the device."""
        words_needed = rows * _FIELDS
        table = self._table_for(words_needed)
        pinned, on_device, words = table.pinned, table.on_device, table.words
        first, last = self._table_used, self._table_used + words_needed
        words[first:last] = self._waiting
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
        if self._stream == 0:  # for which ExternalStream would give some other stream
            return torch.cuda.default_stream(self._device)
        return torch.cuda.ExternalStream(self._stream, self._device)  # type: ignore[no-untyped-call]

    def _launch(self, rows: int, chunks: int, arguments: tuple[int, ...]) -> None:
        """Launch on this device, which need not be the current one: a kernel is loaded for the one that is."""
        if torch._C._cuda_getDevice() == self._index:
            self._launch_here(rows, chunks, arguments)
        else:
            with torch.cuda.device(self._device):
                self._launch_here(rows, chunks, arguments)

    def _launch_here(self, rows: int, chunks: int, arguments: tuple[int, ...]) -> None:
        """Launch on the stream the tensors were added on; Triton's own way takes whatever stream is current."""
        size = _ROW_SIZES[bisect_left(_ROW_SIZES, rows)]
        constants = size, self._checksums, self._has_float8
        known = self._compiled.get(size)
        if known is None:
            compiled = kernel.measure.warmup(*arguments, *constants, num_warps=_WARPS, grid=(chunks,))
            run = compiled.run  # loads the kernel
            known = self._compiled[size] = run, compiled.function, compiled.packed_metadata
        run, function, metadata = known
        run(chunks, 1, 1, self._stream, function, metadata, None, None, None, *arguments, *constants)


@cache
def _factors(device: torch.device) -> torch.Tensor:
    """Return what the checksum multiplies with: a step of all lanes, byte by byte, and what follows each lane."""
    step = int(after_zeros(4 * kernel.LANES))
    tables = [times(byte << (8 * place), step) for place in range(4) for byte in range(256)]
    lanes = [after_zeros(4 * (kernel.LANES - lane)) for lane in range(kernel.LANES)]
    words = torch.from_numpy(np.array(tables + lanes, np.uint32).view(np.int32)).pin_memory()
    return words.to(device, non_blocking=True)
