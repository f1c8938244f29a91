"""Statistics and checksums of tensors on a CUDA device: a launch for each call, one copy to the host for each step."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from torchparity.kernels import _launch
from torchparity.kernels._arena import Reading
from torchparity.kernels._crc import after_zeros, times
from torchparity.kernels._join import joined_checksums, joined_rows
from torchparity.kernels._statistics import statistics_of_row
from torchparity.records import Statistics

_KINDS = {
    "torch.float32": (_launch.FLOAT32, 4),
    "torch.float16": (_launch.FLOAT16, 2),
    "torch.bfloat16": (_launch.BFLOAT16, 2),
    "torch.int64": (_launch.INT64, 8),
    "torch.int32": (_launch.INT32, 4),
    "torch.int16": (_launch.INT16, 2),
    "torch.int8": (_launch.INT8, 1),
    "torch.uint8": (_launch.UINT8, 1),
    "torch.bool": (_launch.UINT8, 1),
}
_FLOAT8 = {"torch.float8_e4m3fn": (_launch.FLOAT8_E4M3, 1), "torch.float8_e5m2": (_launch.FLOAT8_E5M2, 1)}
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
        self.rows = torch.full((rows, _launch.COLUMNS), torch.nan, dtype=torch.float64, device=device)
        self.checksums = torch.empty(rows if checksums else 1, dtype=torch.int32, device=device)
        self.addresses = self.rows.data_ptr(), self.checksums.data_ptr()
        self.used = 0
        # The rows are filled on the stream that is current now; a launch on another must come after that.
        self.streams = {torch._C._cuda_getCurrentRawStream(self.rows.device.index)}
        self.filled = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.filled.record(torch.cuda.current_stream(device))


class CudaArena:
    """See the contract in `_arena.py`. Nothing here waits for the device but `take`."""

    def __init__(self, device: torch.device, *, checksums: bool) -> None:
        self._device, self._index = device, device.index or 0
        self._checksums = checksums
        self._has_float8 = torch.cuda.get_device_capability(device) >= _FLOAT8_SINCE
        self._kinds = _KINDS | (_FLOAT8 if self._has_float8 else {})
        self.dtypes = frozenset(self._kinds)
        self._factors = _factors(device)
        self._compiled: dict[int, Any] = {}
        self._waiting: list[int] = []
        self._waiting_chunks = 0
        self._entries: list[tuple[int, str]] = []
        self._stream = -1
        self._table_used = 0
        self._tables: list[tuple[torch.Tensor, torch.Tensor, npt.NDArray[np.int64]]] = []
        self._begin()

    def add(self, address: int, count: int, dtype: str) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        if stream != self._stream or len(self._waiting) == _FIELDS * _ROW_SIZES[-1]:
            self.flush()
            self._stream = stream
        kind, size = self._kinds[dtype]
        self._waiting += (address, count, kind, size, self._waiting_chunks)
        self._waiting_chunks += -(-count // _launch.CHUNK)
        self._entries.append((count, dtype))

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
            first_row + results.used * _launch.COLUMNS * 8,
            first_checksum + (results.used * 4 if self._checksums else 0),
            self._factors.data_ptr(),
        )
        self._launch(rows, chunks, arguments)
        results.used += chunks
        self._waiting, self._waiting_chunks = [], 0

    def drop(self) -> int:
        lost = len(self._waiting) // _FIELDS
        if lost:
            del self._entries[-lost:]
            self._waiting, self._waiting_chunks = [], 0
        return lost

    def try_out(self) -> None:
        """Raise where this machine cannot compile or launch; waits for nothing."""
        one = torch.ones(1, device=self._device)
        self.add(one.data_ptr(), 1, "torch.float32")
        self.flush()
        used = self._table_used  # the launch may still read its table
        self._begin()
        self._table_used = used

    def take(self) -> list[Reading]:
        self.flush()
        entries, results = self._entries, self._results
        if not entries:
            return []
        torch.cuda.synchronize(self._device)  # more streams than one may have measured
        rows = np.concatenate([part.rows[: part.used].cpu().numpy() for part in results])
        if np.isnan(rows[:, _launch.COLUMNS - 1]).any():
            self._begin()
            raise RuntimeError("tensors on the device were not measured: a launch was lost")
        parts = (
            np.concatenate([part.checksums[: part.used].cpu().numpy() for part in results]) if self._checksums else None
        )
        self._begin()
        counts = np.array([count for count, _ in entries], np.int64)
        chunks = -(-counts // _launch.CHUNK)
        ends = np.cumsum(chunks)
        is_float = np.array([dtype.startswith(("torch.float", "torch.bfloat")) for _, dtype in entries])
        whole = joined_rows(rows, ends - chunks, ends, is_float)
        checksums: list[str | None] = [None] * len(entries)
        if parts is not None:
            sizes = np.array([self._kinds[dtype][1] for _, dtype in entries], np.int64)
            crcs = joined_checksums(parts.view(np.uint32), ends - chunks, ends, counts, sizes, _launch.CHUNK)
            checksums = [f"{crc:08x}" for crc in crcs.tolist()]
        extremes = whole.view(np.int64)[:, 2:4].tolist()
        return [
            (_statistics(count, dtype, row, extreme), checksum)
            for (count, dtype), row, extreme, checksum in zip(entries, whole.tolist(), extremes, checksums, strict=True)
        ]

    def _begin(self) -> None:
        self._stream = -1
        self._entries = []
        self._results = [_Results(_RESULT_ROWS, self._device, checksums=self._checksums)]
        self._table_used, self._table_number = 0, 0

    def _room_for(self, chunks: int) -> _Results:
        results = self._results[-1]
        if results.used + chunks > len(results.rows):
            results = _Results(max(chunks, _RESULT_ROWS), self._device, checksums=self._checksums)
            self._results.append(results)
        return results

    def _write_table(self, rows: int) -> int:
        """Write the entries where no earlier launch still reads; return the address for the device."""
        words_needed = rows * _FIELDS
        if self._table_used + words_needed > _TABLE_WORDS and self._table_used:
            self._table_number, self._table_used = self._table_number + 1, 0
        if self._table_number == len(self._tables) or words_needed > _TABLE_WORDS:
            pinned = torch.empty(max(words_needed, _TABLE_WORDS), dtype=torch.int64, pin_memory=True)
            on_device = torch.empty_like(pinned, device=self._device, pin_memory=False)
            self._tables.insert(self._table_number, (pinned, on_device, pinned.numpy()))
        pinned, on_device, words = self._tables[self._table_number]
        first, last = self._table_used, self._table_used + words_needed
        words[first:last] = self._waiting
        self._table_used = -(-last // _LINE) * _LINE
        if rows <= _FEW:
            return pinned.data_ptr() + first * 8
        target, source = on_device[first:last], pinned[first:last]
        if torch._C._cuda_getCurrentRawStream(self._index) == self._stream:
            target.copy_(source, non_blocking=True)
        else:
            with torch.cuda.stream(self._stream_object()):
                target.copy_(source, non_blocking=True)
        return on_device.data_ptr() + first * 8

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
        size = next(size for size in _ROW_SIZES if rows <= size)
        constants = size, self._checksums, self._has_float8
        compiled = self._compiled.get(size)
        if compiled is None:
            compiled = self._compiled[size] = _launch.measure.warmup(
                *arguments, *constants, num_warps=_WARPS, grid=(chunks,)
            )
        run = compiled.run  # loads the kernel the first time
        metadata = compiled.function, compiled.packed_metadata
        run(chunks, 1, 1, self._stream, *metadata, None, None, None, *arguments, *constants)


@cache
def _factors(device: torch.device) -> torch.Tensor:
    """Return what the checksum multiplies with: a step of all lanes, byte by byte, and what follows each lane."""
    step = int(after_zeros(4 * _launch.LANES))
    tables = [times(byte << (8 * place), step) for place in range(4) for byte in range(256)]
    lanes = [after_zeros(4 * (_launch.LANES - lane)) for lane in range(_launch.LANES)]
    words = torch.from_numpy(np.array(tables + lanes, np.uint32).view(np.int32)).pin_memory()
    return words.to(device, non_blocking=True)


def _statistics(count: int, dtype: str, row: list[float], extremes: list[int]) -> Statistics:
    is_float = dtype.startswith(("torch.float", "torch.bfloat"))
    known = None if is_float else (extremes[0], extremes[1])
    return statistics_of_row(count, row, known, is_bool=dtype == "torch.bool")
