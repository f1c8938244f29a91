"""Deviations that were measured become rows of free_benchmark.csv; calls that were left out are counted by reason."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from torchparity.perturb.arriving import Arriving
from torchparity.perturb.findings import DEVIATIONS, SharedTable
from torchparity.perturb.thresholds import LearnedThresholds, Thresholds, threshold_of
from torchparity.text import counted

_log = logging.getLogger("torchparity")
_MOST_WAITING = 512  # deviations that are sent for together
Stage = Literal["forward", "backward"]


class Measured(NamedTuple):
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


@dataclass
class _StepCounts:
    """The calls of one step: those perturbed, not sampled by a preheat, and left out by reason."""

    perturbed: int = 0
    unsampled: int = 0
    cancelled: Counter[str] = field(default_factory=Counter)
    farthest: tuple[Measured, float] | None = None  # row
    unequal: dict[str, float] = field(default_factory=dict)  # the largest deviation of each API, inputs being the same


class Verdicts:
    """Judges deviations by thresholds, used from the training's thread and from autograd's."""

    def __init__(self, mode: str, thresholds: Thresholds, step: Callable[[], int]) -> None:
        self.mode = mode
        self._thresholds, self.step = thresholds, step
        self._rank = 0
        self.table: SharedTable | None = None
        self._lock = threading.RLock()
        self._waiting: list[tuple[Measured, torch.Tensor | float]] = []
        self._sent: list[tuple[list[Measured], Arriving]] = []  # in this step
        self._older: list[tuple[list[Measured], Arriving]] = []  # sent for in the step before
        self._warned_of: set[str] = set()
        self._counts = defaultdict[int, _StepCounts](_StepCounts)  # by step

    def open(self, folder: Path, rank: int) -> None:
        """Make the file, or raise where it cannot be written."""
        self._rank, self.table = rank, SharedTable(folder, DEVIATIONS)

    @property
    def farthest(self) -> tuple[Measured, float] | None:
        """The row that deviates the most."""
        rows = [each.farthest for each in self._counts.values() if each.farthest is not None]
        return max(rows, key=itemgetter(1), default=None)

    @property
    def perturbed(self) -> int:
        """The number of calls that were perturbed."""
        return sum(each.perturbed for each in self._counts.values())

    @property
    def cancelled(self) -> Counter[str]:
        """The numbers of calls that were left out, by reason."""
        return sum((each.cancelled for each in self._counts.values()), Counter())

    @property
    def unequal(self) -> dict[str, float]:
        """The largest deviation of each API that varied within the thresholds though its inputs did not change."""
        largest: dict[str, float] = {}
        for each in self._counts.values():
            for api, deviation in each.unequal.items():
                largest[api] = max(deviation, largest.get(api, 0.0))
        return largest

    def take_back(self, step: int | None = None) -> None:
        """Remove the rows of a step, or of all, and count its calls no longer: they are of no training."""
        self.settle()
        with self._lock:
            for each in [step] if step is not None else list(self._counts):
                self._counts.pop(each, None)
            if self.table is not None:
                self.table.take_back(step)

    def wants(self, api: str, name: str) -> bool:
        """Tell whether a call is to be judged."""
        step = self.step()
        with self._lock:
            if not self._thresholds.wants(api, step):
                self._counts[step].unsampled += 1
                return False
            if isinstance(self._thresholds, LearnedThresholds) and self._thresholds.is_learning(step):
                taken, most = self._thresholds.sampled[api], self._thresholds.most
                _log.info(
                    "torchparity: Free benchmark: preheat sample in step %d api_name %s curr_called_seq: %d/%d",
                    *(step, name, taken, most),
                )
        return True

    def give_back(self, api: str) -> None:
        """Take no notice of a call that was wanted: it could not be perturbed."""
        with self._lock:
            self._thresholds.give_back(api, self.step())

    def begin(self, name: str) -> None:
        """Note that a call is perturbed."""
        with self._lock:
            self._counts[self.step()].perturbed += 1
        _log.info("torchparity: Free Benchmark: Perturbation is %s of %s.", self.mode, name)

    def cancel(self, name: str, reason: str) -> None:
        """Note that a call is not perturbed, and why."""
        with self._lock:
            self._counts[self.step()].cancelled[reason] += 1
        _log.info("torchparity: Free Benchmark: For %s, %s. Cancel perturbation.", name, reason)

    def preheat_sentences(self) -> list[str]:
        """Return what to say of a preheat that passed over calls."""
        unsampled = sum(each.unsampled for each in self._counts.values())
        if not unsampled:
            return []
        has_ended = not (isinstance(self._thresholds, LearnedThresholds) and self._thresholds.is_learning(self.step()))
        lasts = "" if has_ended else ", which has not ended, so that no API's own level counted"
        return [f"{counted(unsampled, 'call')} not sampled by the preheat{lasts}"]

    def cannot_take(self, api: str, name: str, *, was_asked_for: bool) -> None:
        """Note that a call has no tensor to perturb: with a warning, once for each API that was asked for."""
        with self._lock:
            self._counts[self.step()].cancelled["it is given no tensor"] += 1
        level = logging.WARNING if was_asked_for and api not in self._warned_of else logging.INFO
        self._warned_of.add(api)
        _log.log(level, "torchparity: Free benchmark: the types of the inputs of %s are not supported.", name)

    def add(self, measured: Measured, deviation: torch.Tensor | float) -> None:
        """Judge a deviation now, or later where a device still computes it."""
        with self._lock:
            if not (self._waiting or self._sent or self._older) and not isinstance(deviation, torch.Tensor):
                self._judge(measured, deviation)
                return
            self._waiting.append((measured, deviation))  # behind what waits: rows come in the order of the calls
            if len(self._waiting) >= _MOST_WAITING:
                self._send()

    def end_step(self) -> None:
        """Send for what the step measured, and judge what the step before sent for: that has come meanwhile."""
        with self._lock:
            self._send()
            arrived, self._older, self._sent = self._older, self._sent, []
            self._judge_all(arrived)

    def settle(self) -> None:
        """Judge everything, and wait for what is still to come."""
        with self._lock:
            self._send()
            arrived, self._older, self._sent = [*self._older, *self._sent], [], []
            self._judge_all(arrived)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._sent.append(([measured for measured, _ in waiting], Arriving([each for _, each in waiting])))

    def _judge_all(self, arrived: Sequence[tuple[list[Measured], Arriving]]) -> None:
        for entries, arriving in arrived:
            for measured, deviation in zip(entries, arriving.numbers(), strict=True):
                self._judge(measured, deviation)

    def _judge(self, measured: Measured, deviation: float) -> None:
        counts, threshold = self._counts[measured.step], threshold_of(measured.output_dtype, measured.moved)
        if self._thresholds.exceeds(measured.api, measured.step, measured.output_dtype, threshold, deviation):
            index = "" if measured.output_index is None else measured.output_index
            if counts.farthest is None or deviation > counts.farthest[1]:
                counts.farthest = measured, deviation
            if self.table is not None:
                self.table.add(
                    [
                        *(self._rank, self.mode, measured.stage, measured.step, measured.name, deviation),
                        *(str(measured.dtype), measured.shape, index),
                    ],
                    measured.step,
                )
        elif deviation > 0 and self.mode == "no_change":
            counts.unequal[measured.api] = max(deviation, counts.unequal.get(measured.api, 0.0))
