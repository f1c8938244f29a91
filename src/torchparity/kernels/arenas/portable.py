"""Statistics of tensors on any device, with torch's own operators; nothing waits for the device until the step ends."""

from __future__ import annotations

import torch

from torchparity.kernels.statistics import statistics_of_row
from torchparity.records import Statistics

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
_WITHOUT_DOUBLES = ("mps",)
_SLICE = 1 << 24  # elements at a time: the operators need copies


def is_portable(tensor: torch.Tensor) -> bool:
    return tensor.dtype in _FLOATS or tensor.dtype in _INTEGERS


class PortableArena:
    """Takes tensors as they are and remembers rows of results on their device."""

    def __init__(self) -> None:
        self._rows: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._entries: list[tuple[int, bool]] = []

    def add(self, tensor: torch.Tensor) -> int:
        """Measure a tensor that is not empty; return the number of its statistics in `take`."""
        flat = tensor.detach().reshape(-1)
        parts = [_row(flat[first : first + _SLICE]) for first in range(0, flat.numel(), _SLICE)]
        self._rows.append((torch.stack([row for row, _ in parts]), _stacked([extremes for _, extremes in parts])))
        self._entries.append((flat.numel(), tensor.dtype == torch.bool))
        return len(self._entries) - 1

    def take(self) -> list[Statistics]:
        entries, rows = self._entries, self._rows
        self._entries, self._rows = [], []
        for device in {row.device for row, _ in rows}:
            _wait_for(device)  # rows of other streams than the current one too
        return [
            _statistics(count, is_bool, row.cpu(), None if extremes is None else extremes.cpu())
            for (count, is_bool), (row, extremes) in zip(entries, rows, strict=True)
        ]


def _wait_for(device: torch.device) -> None:
    if device.type == "mps":
        torch.mps.synchronize()
    elif device.type != "cpu" and hasattr(torch, device.type):
        getattr(torch, device.type).synchronize(device)


def _stacked(parts: list[torch.Tensor | None]) -> torch.Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.stack(known) if known else None


def _row(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return sums, extremes and counts, and for integers the extremes with every digit."""
    wide = torch.float32 if part.device.type in _WITHOUT_DOUBLES else torch.float64
    value = part.to(wide)
    finite = torch.isfinite(value)
    known = torch.where(finite, value, 0)
    counts = [value == 0, torch.isnan(value), value == torch.inf, value == -torch.inf]
    row = torch.stack(
        [
            known.sum(),
            (known * known).sum(),
            torch.where(finite, value, -torch.inf).amax(),
            torch.where(finite, value, torch.inf).amin(),
            *(count.sum().to(wide) for count in counts),
        ]
    )
    if part.dtype in _FLOATS:
        return row, None
    whole = part.to(torch.int64)
    return row, torch.stack([whole.amax(), whole.amin()])


def _statistics(count: int, is_bool: bool, rows: torch.Tensor, extremes: torch.Tensor | None) -> Statistics:
    row = rows.double().sum(dim=0).tolist()
    row[2], row[3] = rows[:, 2].max().item(), rows[:, 3].min().item()
    known = None if extremes is None else (extremes[:, 0].max().item(), extremes[:, 1].min().item())
    return statistics_of_row(count, row, known, is_bool=is_bool)
