"""Memory of the CUDA arena: rows of results on the device, tables of tensors for its launches."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from torchparity.kernels.numba_loops.crc import after_zeros, times
from torchparity.kernels.row import FIELDS
from torchparity.kernels.triton_launch.checksum import LANES


class Results:
    """Rows on the device for a stretch of the step."""

    def __init__(self, rows: int, device: torch.device, *, checksums: bool, before: int = 0) -> None:
        self.before = before  # rows of the same step in other memory
        # A row that no program wrote must not look like one: counts are never nan.
        self.rows = torch.full((rows, FIELDS), torch.nan, dtype=torch.float64, device=device)
        self.checksums = torch.empty(rows if checksums else 1, dtype=torch.int32, device=device)
        self.addresses = self.rows.data_ptr(), self.checksums.data_ptr()
        self.used = 0
        # The rows are filled on the stream that is current now; a launch on another must come after that.
        self.streams = {torch._C._cuda_getCurrentRawStream(self.rows.device.index)}
        self.filled = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.filled.record(torch.cuda.current_stream(device))


class Table:
    """The tensors that launches measure, as words in pinned memory, and as many words on the device."""

    def __init__(self, words: int, device: torch.device) -> None:
        self.pinned = torch.empty(words, dtype=torch.int64, pin_memory=True)
        self.on_device = torch.empty_like(self.pinned, device=device, pin_memory=False)
        self.words: npt.NDArray[np.int64] = self.pinned.numpy()


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
