"""Deviations that were measured become rows of free_benchmark.csv; calls that were left out are counted by reason."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from torchparity.perturb.findings import SharedTable
from torchparity.perturb.thresholds import LearnedThresholds, Thresholds, threshold_of

_log = logging.getLogger("torchparity")
_FILE = "free_benchmark.csv"
_HEADER = ("rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index")
_MOST_WAITING = 512  # deviations that a device may still be computing
Stage = Literal["forward", "backward"]


@dataclass(frozen=True)
class Measured:
    """One result of a perturbed call; `dtype` and `shape` are those of the input, `output_dtype` is the result's."""

    api: str
    name: str
    stage: Stage
    step: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    output_dtype: torch.dtype
    moved: float  # by what part of their size the inputs were moved
    output_index: int | None


class Verdicts:
    """Judges deviations by thresholds, used from the training's thread and from autograd's."""

    def __init__(self, mode: str, thresholds: Thresholds, step: Callable[[], int]) -> None:
        self.mode = mode
        self._thresholds, self.step = thresholds, step
        self._rank = 0
        self.table: SharedTable | None = None
        self._lock = threading.RLock()
        self._waiting: list[tuple[Measured, torch.Tensor | float]] = []
        self._warned_of: set[str] = set()
        self.perturbed = 0
        self.cancelled = Counter[str]()

    def open(self, folder: Path, rank: int) -> None:
        """Make the file, or raise where it cannot be written."""
        self._rank, self.table = rank, SharedTable(folder / _FILE, _HEADER)

    def wants(self, api: str, name: str) -> bool:
        """Tell whether a call is to be judged."""
        step = self.step()
        with self._lock:
            if not self._thresholds.wants(api, step):
                return False
            if isinstance(self._thresholds, LearnedThresholds) and self._thresholds.is_learning(step):
                taken, most = self._thresholds.sampled[api], self._thresholds.most
                _log.info(
                    "torchparity: Free benchmark: preheat sample in step %d api_name %s curr_called_seq: %d/%d",
                    *(step, name, taken, most),
                )
        return True

    def begin(self, name: str) -> None:
        """Note that a call is perturbed."""
        self.perturbed += 1
        _log.info("torchparity: Free Benchmark: Perturbation is %s of %s.", self.mode, name)

    def cancel(self, name: str, reason: str) -> None:
        """Note that a call is not perturbed, and why."""
        self.cancelled[reason] += 1
        _log.info("torchparity: Free Benchmark: For %s, %s. Cancel perturbation.", name, reason)

    def cannot_take(self, api: str, name: str, *, was_asked_for: bool) -> None:
        """Note that a call has no tensor to perturb: with a warning, once for each API that was asked for."""
        self.cancelled["it has no tensor"] += 1
        level = logging.WARNING if was_asked_for and api not in self._warned_of else logging.INFO
        self._warned_of.add(api)
        _log.log(level, "torchparity: Free benchmark: the types of the inputs of %s are not supported.", name)

    def add(self, measured: Measured, deviation: torch.Tensor | float) -> None:
        """Judge a deviation now, or later where a device still computes it."""
        with self._lock:
            if not self._waiting and not isinstance(deviation, torch.Tensor):
                self._judge(measured, deviation)
                return
            self._waiting.append((measured, deviation))  # behind what waits: rows come in the order of the calls
            if len(self._waiting) >= _MOST_WAITING:
                self.settle()

    def settle(self) -> None:
        """Judge what waits for a device, in the order in which it came."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for (measured, _), deviation in zip(waiting, _read([each for _, each in waiting]), strict=True):
                self._judge(measured, deviation)

    def _judge(self, measured: Measured, deviation: float) -> None:
        threshold = threshold_of(measured.output_dtype, measured.moved)
        if self._thresholds.exceeds(measured.api, measured.step, measured.output_dtype, threshold, deviation):
            index = "" if measured.output_index is None else measured.output_index
            if self.table is not None:
                self.table.add(
                    [
                        *(self._rank, self.mode, measured.stage, measured.step, measured.name, deviation),
                        *(str(measured.dtype), measured.shape, index),
                    ]
                )


def _read(deviations: Sequence[torch.Tensor | float]) -> list[float]:
    """Return deviations as numbers: those that a device has are brought to the host together."""
    read = [0.0 if isinstance(each, torch.Tensor) else each for each in deviations]
    places: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for place, each in enumerate(deviations):
        if isinstance(each, torch.Tensor):
            places.setdefault((each.device, each.dtype), []).append(place)
    for together in places.values():
        numbers = torch.stack([each for place in together if isinstance(each := deviations[place], torch.Tensor)])
        for place, number in zip(together, numbers.tolist(), strict=True):
            read[place] = number
    return read
