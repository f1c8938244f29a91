"""Thresholds: how large a deviation may be by the dtype of a result, and what a preheat learns of each API."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import Protocol

import torch

_BY_DTYPE = {torch.float16: 0.002, torch.bfloat16: 0.004}
_OTHER = 0.0002
_OUTLIER = 10  # times the median of an API's samples: no part of its own level
_MARGIN = 2  # times the largest deviation that belongs to its level


def threshold_of(output: torch.dtype, moved: float) -> float:
    """Return the largest deviation that a result of a dtype may have, where inputs moved by a part of their size.

    Where they moved by a unit in their last place a result may move by two of those, and by one of its own, which is
    what rounding does: for bfloat16 both are more than the threshold of its results.
    """
    usual = _BY_DTYPE.get(output, _OTHER)
    if not moved:
        return usual
    return max(usual, 2 * moved, torch.finfo(output).eps if output.is_floating_point else 0.0)


class Thresholds(Protocol):
    """The deviations that the results of APIs may have, and the calls that are judged by them."""

    def wants(self, api: str, step: int) -> bool:
        """Count a call of an API; tell whether it is to be judged."""

    def give_back(self, api: str, step: int) -> None:
        """Count a call no longer, which could not be judged."""

    def exceeds(self, api: str, step: int, dtype: torch.dtype, threshold: float, deviation: float) -> bool:
        """Take a deviation; tell whether it is too large, where `threshold` is what results of this dtype may have."""


class FixedThresholds:
    """The same for all APIs."""

    def wants(self, api: str, step: int) -> bool:
        return True

    def give_back(self, api: str, step: int) -> None:
        """Do nothing: no calls are counted."""

    def exceeds(self, api: str, step: int, dtype: torch.dtype, threshold: float, deviation: float) -> bool:
        return deviation > threshold


class LearnedThresholds:
    """Judges a sample of the calls in the first steps, and widens the thresholds of an API to the level it shows.

    A deviation far above an API's others is no part of its level. In each step other calls are sampled,
    so that after a while all have been.
    """

    def __init__(self, steps: int, most: int) -> None:
        self._steps, self.most = steps, most
        self._each_step = -(-most // steps)
        self._first: int | None = None  # step
        self._step: int | None = None
        self._called, self._called_before = Counter[str](), Counter[str]()
        self.sampled = Counter[str]()
        self._samples: dict[tuple[str, torch.dtype], list[float]] = {}

    def wants(self, api: str, step: int) -> bool:
        if self._step != step:
            self._first = step if self._first is None else self._first
            self._step, self._called_before, self._called = step, self._called, Counter()
        number = self._called[api]
        self._called[api] += 1
        if not self.is_learning(step):
            return True
        if self.sampled[api] >= self.most or not self._is_turn_of(number, self._called_before[api], step):
            return False
        self.sampled[api] += 1
        return True

    def give_back(self, api: str, step: int) -> None:
        if self.is_learning(step):
            self.sampled[api] -= 1

    def _is_turn_of(self, number: int, calls: int, step: int) -> bool:
        """Tell whether a step samples this call of an API, which was called so many times in the step before."""
        if not calls:
            return number < self._each_step
        first = (step - (self._first or 0)) * self._each_step % calls
        return (number - first) % calls < self._each_step

    def is_learning(self, step: int) -> bool:
        """Tell whether a step is one of the first."""
        return self._first is None or step - self._first < self._steps

    def exceeds(self, api: str, step: int, dtype: torch.dtype, threshold: float, deviation: float) -> bool:
        samples = self._samples.setdefault((api, dtype), [])
        if self.is_learning(step):
            samples.append(deviation)
            return deviation > threshold
        return deviation > max(threshold, _MARGIN * _level(samples))


def _level(samples: list[float]) -> float:
    """Return the largest of the samples that are no outliers; what is infinitely far is none's level."""
    finite = list(filter(math.isfinite, samples))
    if not finite:
        return 0.0
    usual = _OUTLIER * statistics.median(finite)
    return max((sample for sample in finite if sample <= usual), default=0.0)
