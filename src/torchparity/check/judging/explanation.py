"""Telling an error that is normal for the dtype from a wrong one.

The CPU's own result in the tested dtype, and the reference with that dtype's rounding emulated, show
how large errors get at each magnitude of the result. An error is explained if it is at most one ULP
plus a multiple of the largest of those errors at its magnitude: within one power of two. float32 and
wider results may be off by 32 epsilons of their root mean square besides: far below what a wrong kernel does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchparity.check.judging.float_formats import FloatFormat, Floats
from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.metrics import Numbers, is_same, magnitudes, rounded_to
from torchparity.check.judging.standards import may_use_tf32

# Sums of half-precision numbers are kept in float32 by every device, and so are exact here. Those of float32 are
# kept in float32: their error grows with the number of terms, in an order that the emulation does not know.
_TIMES_HALF, _TIMES_WIDE = 4.0, 16.0
_ULPS = 1.0
_FLUSHED_BELOW = 1e-30  # subnormals of formats with a range like float32's may be flushed to zero
_TF32 = (2.0**10, 2.0**13)  # multiples of float32's own error that inputs of 10 bits lead to; of 7 bits it is 2**14
_MANY = 1 << 16  # elements from which a sample costs more than it tells
_MOST_SAMPLES, _MOST_SAMPLES_OF_MANY = 8, 3


@dataclass(frozen=True, slots=True)
class Explanation:
    """How far a result goes beyond what rounding explains."""

    excess: float  # the largest error as a multiple of what is allowed at its place; at most 1 is explained
    worst: int  # the flat index of that error
    beyond: int  # elements whose error is not explained
    samples: int  # results with rounding that the errors were held against


class Profile:
    """The errors that rounding makes at each magnitude, learnt from results with rounding."""

    def __init__(self, device: Numbers, reference: Numbers, form: FloatFormat, normwise: float) -> None:
        self._device, self._reference, self._form = device, reference, form
        finite_reference = np.where(np.isfinite(reference), reference, 0)
        self._sizes = magnitudes(finite_reference)
        self._bins = form.exponents(self._sizes) - form.lowest_exponent + 1
        self._largest = np.zeros(int(self._bins.max(initial=0)) + 2)
        self._shared = is_same(device, rounded_to(reference, form))
        self._samples = 0
        self._normwise = normwise * _root_mean_square(self._sizes)
        self._times = _TIMES_HALF if form.is_half else _TIMES_WIDE

    def learn(self, rounded: Numbers) -> None:
        """Add the errors of one result with rounding."""
        self._samples += 1
        # Where rounding leads to nan or inf as well, neither says how large an error may be.
        both_left = ~np.isfinite(rounded) & ~np.isfinite(self._device)
        self._shared |= is_same(self._device, rounded) | both_left
        usable = np.isfinite(rounded) & np.isfinite(self._reference)
        with np.errstate(invalid="ignore", over="ignore"):
            errors = np.where(usable, magnitudes(rounded - self._reference), 0.0)
        np.maximum.at(self._largest, self._bins, errors)

    def explain(self) -> Explanation:
        """Return how far the device's errors go beyond those learnt."""
        if not self._device.size:
            return Explanation(0.0, 0, 0, self._samples)
        excess = self._errors() / self._allowed()
        excess[self._shared] = 0.0
        worst = int(excess.argmax())
        return Explanation(float(excess[worst]), worst, int(np.count_nonzero(excess > 1)), self._samples)

    def _errors(self) -> Floats:
        """Return the device's errors; an overflow is an error up to the power of two above the largest number."""
        device, reference = self._device, self._reference
        with np.errstate(invalid="ignore", over="ignore"):
            if device.dtype.kind != "c":
                beyond = np.ldexp(1.0, int(np.frexp(self._form.largest)[1])) if self._form.largest < 1e300 else np.inf
                device = np.where(np.isinf(device) & np.isfinite(reference), np.copysign(beyond, device), device)
            errors = magnitudes(device - reference)
        return np.where(np.isnan(errors), np.inf, errors)

    def _allowed(self) -> Floats:
        around = self._largest.copy()
        around[1:] = np.maximum(around[1:], self._largest[:-1])
        around[:-1] = np.maximum(around[:-1], self._largest[1:])
        allowed: Floats = _ULPS * self._form.spacing(self._sizes) + self._times * around[self._bins]
        allowed += self._normwise
        if self._form.smallest_normal < _FLUSHED_BELOW:
            allowed += self._form.smallest_normal
        return allowed


def _root_mean_square(sizes: Floats) -> float:
    largest = float(sizes.max(initial=0.0))
    return largest * float(np.sqrt(np.square(sizes / largest).mean())) if largest else 0.0


def is_within_one_ulp(metrics: Metrics) -> bool:
    """Tell whether every error is explained already by the one ULP that is allowed anywhere."""
    return not metrics.nonfinite_error_rate and metrics.max_ulp is not None and metrics.max_ulp <= _ULPS


def is_like_tf32(api: str, form: FloatFormat, multiple: float) -> bool:
    """Tell whether an error, as a multiple of float32's own, is one that TF32 makes."""
    return form.dtype == "torch.float32" and may_use_tf32(api) and _TF32[0] <= multiple <= _TF32[1]


def sample_numbers(elements: int) -> Iterator[int]:
    """Return the numbers of the samples worth asking for, for a result of so many elements."""
    return iter(range(_MOST_SAMPLES if elements < _MANY else _MOST_SAMPLES_OF_MANY))


def unstable(reference: npt.NDArray[np.generic], samples: list[npt.NDArray[np.generic]]) -> npt.NDArray[np.bool_]:
    """Tell which integers or booleans rounding alone changes: the index of a tie, a number cut at a whole one."""
    changed = np.zeros(reference.shape, np.bool_)
    for sample in samples:
        changed |= sample != reference
    return changed
