"""Memory of the CUDA arena: rows of results on the device, tables of tensors for its launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from torchparity.kernels.numba_loops.crc import after_zeros, times
from torchparity.kernels.row import FIELDS
from torchparity.kernels.triton_launch.checksum import LANES

ROW_BYTES = FIELDS * 8
_TABLE_WORDS = 1 << 17
_LINE = 16  # words of a cache line, which no two tables share


class Results:
    """Rows on the device for a stretch of the step."""

    def __init__(self, rows: int, device: torch.device, *, checksums: bool, before: int = 0) -> None:
        self.before = before  # rows of the same step in other memory
        # A row that no program wrote must not look like one: counts are never nan.
        self.rows = torch.full((rows, FIELDS), torch.nan, dtype=torch.float64, device=device)
        self.checksums = torch.empty(rows if checksums else 1, dtype=torch.int32, device=device)
        self.first_row = self.next_row = self.rows.data_ptr()
        self.next_checksum = self.checksums.data_ptr()
        self.size, self.used = rows, 0
        self._checksum_bytes = 4 if checksums else 0
        # The rows are filled on the stream that is current now; a launch on another must come after that.
        self.streams = {torch._C._cuda_getCurrentRawStream(self.rows.device.index)}
        self.filled = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.filled.record(torch.cuda.current_stream(device))

    def use(self, programs: Sequence[int]) -> list[int]:
        """Take a row for each program of some tensors; return the first of each, counted from the stretch's begin."""
        first = row = self.before + self.used
        first_rows = []
        for number in programs:
            first_rows.append(row)
            row += number
        taken = row - first
        self.used += taken
        self.next_row += taken * ROW_BYTES
        self.next_checksum += taken * self._checksum_bytes
        return first_rows


class Table:
    """The tensors that launches measure, as words in pinned memory, and as many words on the device."""

    def __init__(self, words: int, device: torch.device) -> None:
        self.pinned = torch.empty(words, dtype=torch.int64, pin_memory=True)
        self.on_device = torch.empty_like(self.pinned, device=device, pin_memory=False)
        self.words: npt.NDArray[np.int64] = self.pinned.numpy()


class LaunchTables:
    """The tables of the launches of a step; the next step uses those that no launch reads any more."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._index = device, device.index or 0
        self._in_use: list[Table] = []
        self._used_words = 0  # of the last
        self._spare: list[Table] = []

    def write(self, entries: list[int], stream: int) -> int:
        """Write a table of tensors, on a stream; return its address on the device."""
        table = self._with_room_for(len(entries))
        first, last = self._used_words, self._used_words + len(entries)
        table.words[first:last] = entries
        self._used_words = -(-last // _LINE) * _LINE
        target, source = table.on_device[first:last], table.pinned[first:last]
        if torch._C._cuda_getCurrentRawStream(self._index) == stream:
            target.copy_(source, non_blocking=True)
        else:
            with torch.cuda.stream(stream_object(stream, self._device)):
                target.copy_(source, non_blocking=True)
        return int(table.on_device.data_ptr()) + first * 8

    def take(self) -> list[Table]:
        """Start over; return the tables in use, which are given back when the launches are done."""
        taken, self._in_use = self._in_use, []
        return taken

    def give_back(self, tables: list[Table]) -> None:
        """Use tables again that no launch reads any more."""
        self._spare += tables

    def _with_room_for(self, words: int) -> Table:
        if not self._in_use or self._used_words + words > len(self._in_use[-1].words):
            is_usual = words <= _TABLE_WORDS
            spare = self._spare.pop() if is_usual and self._spare else None
            self._in_use.append(spare or Table(max(words, _TABLE_WORDS), self._device))
            self._used_words = 0
        return self._in_use[-1]


def stream_object(stream: int, device: torch.device) -> Any:
    """Return a stream of torch's by its number."""
    if stream == 0:  # ExternalStream(0) would be another stream
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(stream, device)  # type: ignore[no-untyped-call]


@dataclass
class Stretch:
    """Everything measured between two calls of `take`."""

    results: list[Results]
    tables: list[Table] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    first_rows: list[int] = field(default_factory=list)
    owners: list[Any] = field(default_factory=list)


@cache
def checksum_factors(device: torch.device) -> torch.Tensor:
    """Return the factors of the checksum: four tables that advance all lanes byte by byte, and one factor per lane."""
    step = int(after_zeros(4 * LANES))
    tables = [times(byte << (8 * place), step) for place in range(4) for byte in range(256)]
    lanes = [after_zeros(4 * (LANES - lane)) for lane in range(LANES)]
    words = torch.from_numpy(np.array([*tables, *lanes], np.uint32).view(np.int32)).pin_memory()
    return words.to(device, non_blocking=True)
