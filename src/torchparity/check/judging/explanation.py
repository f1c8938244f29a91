"""Telling an error that is normal for the dtype from a wrong one.

The CPU's own result in the tested dtype, and the reference with that dtype's rounding emulated, show
how large errors get at each magnitude of the result. An error is explained if it is at most one ULP
plus a multiple of the largest of those errors at its magnitude: within one power of two. float32 and
wider results may be off by 32 epsilons of their root mean square besides: far below what a wrong kernel does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchparity.check.judging.float_formats import FloatFormat, Floats
from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.metrics import is_same, magnitudes, rounded_to
from torchparity.check.judging.standards import goes_through_squares, is_recurrent, normwise_error
from torchparity.check.judging.values import Numbers, Values, blocks

# Sums of half-precision numbers are kept in float32 by every device, and so are exact here. Those of float32 are
# kept in float32: their error grows with the number of terms, in an order that the emulation does not know. A
# recurrence feeds that error into the sums of the next step.
_TIMES_HALF, _TIMES_WIDE, _TIMES_RECURRENT = 4.0, 16.0, 48.0
_ULPS = 1.0
_FLUSHED_BELOW = 1e-30  # subnormals of formats with a range like float32's may be flushed to zero
_EXPONENTS = 1025  # the largest of float64, and the next
_ENOUGH = 16  # elements of a magnitude, whose own errors tell what is normal there
_MANY = 1 << 16  # elements from which a sample costs more than it tells
_MOST_SAMPLES, _MOST_SAMPLES_OF_MANY = 8, 3


@dataclass(frozen=True, slots=True)
class Explanation:
    """The part of a result's errors that rounding does not explain."""

    excess: float  # the largest error as a multiple of what is allowed at its place; at most 1 is explained
    worst: int  # the flat index of that error
    beyond: int  # elements whose error is not explained
    samples: int  # results with rounding that the errors were held against


class Profile:
    """The errors that rounding makes at each magnitude, learnt from results with rounding."""

    def __init__(self, api: str, device: Values, reference: Values, form: FloatFormat) -> None:
        self._api, self._device, self._reference, self._form = api, device, reference, form
        self._largest = np.zeros(_EXPONENTS - form.lowest_exponent)  # error at each power of two
        self._shared = np.zeros(device.size, np.bool_)  # results that rounding gives too
        for part, tested, right in blocks(device, reference):
            self._shared[part] = is_same(tested, rounded_to(right, form))
        self._samples = 0
        self._scale = _root_mean_square(reference)
        self._times = _times(api, form)
        self._of_larger = self._share_of_larger()

    def _share_of_larger(self) -> Floats:
        """Return how much of the next power's errors counts for each power.

        Rounding errs by a share of the result, twice as much at twice the size; errors of sums do not, and are seen
        where they are looked for in enough elements.
        """
        counts = np.zeros_like(self._largest)
        if self._form.is_half:
            for _, _, right in blocks(self._device, self._reference):
                np.add.at(counts, self._powers(right), 1)
        return np.where(counts[:-1] >= _ENOUGH, 0.5, 1.0)

    def learn(self, rounded: Values) -> None:
        """Add the errors of one result with rounding."""
        self._samples += 1
        for part, sample, right in blocks(rounded, self._reference):
            tested = self._device.numbers(part)
            # Where rounding leads to nan or inf as well, neither says how large an error may be.
            both_left = ~np.isfinite(sample) & ~np.isfinite(tested)
            self._shared[part] |= is_same(tested, sample) | both_left
            with np.errstate(invalid="ignore", over="ignore"):
                errors = magnitudes(sample - right)
            errors[~np.isfinite(errors)] = 0.0
            np.maximum.at(self._largest, self._powers(right), errors)

    def explain(self) -> Explanation:
        """Return how far the device's errors go beyond those learnt."""
        largest, worst, beyond = 0.0, 0, 0
        around = self._largest.copy()
        around[1:] = np.maximum(around[1:], self._largest[:-1])
        around[:-1] = np.maximum(around[:-1], self._largest[1:] * self._of_larger)
        for part, tested, right in blocks(self._device, self._reference):
            excess = self._errors(tested, right) / self._allowed(right, around)
            excess[self._shared[part]] = 0.0
            place = int(excess.argmax())
            beyond += int(np.count_nonzero(excess > 1))
            if excess[place] > largest:
                largest, worst = float(excess[place]), part.start + place
        return Explanation(largest, worst, beyond, self._samples)

    def _powers(self, reference: Numbers) -> npt.NDArray[np.int64]:
        powers: npt.NDArray[np.int64] = self._form.exponents(_finite_sizes(reference)) - self._form.lowest_exponent
        return powers

    def _errors(self, device: Numbers, reference: Numbers) -> Floats:
        """Return the device's errors; an overflow is an error up to the power of two above the largest number."""
        with np.errstate(invalid="ignore", over="ignore"):
            if device.dtype.kind != "c":
                beyond = np.ldexp(1.0, int(np.frexp(self._form.largest)[1])) if self._form.largest < 1e300 else np.inf
                device = np.where(np.isinf(device) & np.isfinite(reference), np.copysign(beyond, device), device)
            errors = magnitudes(device - reference)
        return np.where(np.isnan(errors), np.inf, errors)

    def _allowed(self, reference: Numbers, around: Floats) -> Floats:
        sizes = _finite_sizes(reference)
        allowed: Floats = _ULPS * self._form.spacing(sizes)
        allowed += self._times * around[self._powers(reference)] + self._normwise(sizes)
        if self._form.smallest_normal < _FLUSHED_BELOW:
            allowed += self._form.smallest_normal
        return allowed

    def _normwise(self, sizes: Floats) -> Floats | float:
        """Return the error that is small against the whole result; the root of a square has more of it near zero."""
        share = normwise_error(self._api, self._form)
        if not goes_through_squares(self._api) or not self._scale:
            return share * self._scale
        return share * self._scale**2 / (sizes + math.sqrt(share) * self._scale)


def _finite_sizes(numbers: Numbers) -> Floats:
    sizes = magnitudes(numbers)
    return np.where(np.isfinite(sizes), sizes, 0.0)


def _times(api: str, form: FloatFormat) -> float:
    if form.is_half:
        return _TIMES_HALF
    return _TIMES_RECURRENT if is_recurrent(api) else _TIMES_WIDE


def _root_mean_square(values: Values) -> float:
    largest = max((float(_finite_sizes(part).max()) for _, part, _ in blocks(values, values)), default=0.0)
    if not largest:
        return 0.0
    squares = sum(float(np.square(_finite_sizes(part) / largest).sum()) for _, part, _ in blocks(values, values))
    return largest * math.sqrt(squares / values.size)


def is_within_one_ulp(metrics: Metrics) -> bool:
    """Tell whether every error is explained already by the one ULP that is allowed anywhere."""
    return not metrics.nonfinite_error_rate and metrics.max_ulp is not None and metrics.max_ulp <= _ULPS


def sample_numbers(elements: int) -> Iterator[int]:
    """Return the numbers of the samples worth asking for, for a result of so many elements."""
    return iter(range(_MOST_SAMPLES if elements < _MANY else _MOST_SAMPLES_OF_MANY))


def unstable(reference: Values, samples: list[Values]) -> npt.NDArray[np.bool_]:
    """Tell which integers or booleans rounding alone changes: the index of a tie, a number cut at a whole one."""
    changed = np.zeros(reference.size, np.bool_)
    for sample in samples:
        changed |= sample.stored != reference.stored
    return changed
