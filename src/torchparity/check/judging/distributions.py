"""Judging results that are random: by their distribution, not by their values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from torchparity.check.judging.float_formats import float_format
from torchparity.check.judging.judgement import Judgement, skipped
from torchparity.check.judging.outcome import Outcome, Status
from torchparity.check.judging.values import NotComparableError, Numbers, Values, values_of

_DEVIATIONS = 5.0  # a fair draw is further off about once in two million times
_FUZZY_ULPS = 4.0
_CHANNEL = {"dropout1d": -1, "dropout2d": -2, "dropout3d": -3, "feature_dropout": 2, "feature_alpha_dropout": 2}
_LEAST = 1e-6  # probability below which two draws are not of one distribution


def judge_distribution(outcome: Outcome, *, zero_share: float | None = None) -> Judgement:
    """Return the judgement of a random result.

    `zero_share` is the p of a dropout: the share of zeros must be about p, and what is not zero must be distributed
    as in the reference. Without it all values must be. The reference is another draw of the same distribution.
    """
    try:
        device, reference = values_of(outcome.device), values_of(outcome.reference)
    except NotComparableError as reason:
        return skipped(outcome.name, f"The values cannot be compared: {reason}.")
    if device.shape != reference.shape:
        said = f"The device gave the shape {device.shape}, the reference {reference.shape}."
        return _judgement(outcome, device, reference, said)
    form = float_format(device.dtype)
    fuzz = 0.0 if form is None else _FUZZY_ULPS * form.epsilon
    draws = _Draws(_real(device), _real(reference), fuzz, _drawn_together(outcome.api, device.shape))
    problem = draws.nonfinite() or (draws.zeros(zero_share) if zero_share is not None else "")
    if not problem and zero_share is not None and "alpha" not in outcome.api:
        problem = draws.kept()
    if not problem:
        problem = (draws.without_zeros() if zero_share is not None else draws).difference()
    return _judgement(outcome, device, reference, problem)


def _judgement(outcome: Outcome, device: Values, reference: Values, problem: str) -> Judgement:
    return Judgement(
        name=outcome.name,
        status=Status.ERROR if problem else Status.PASS,
        message=problem or "It is random and judged by its distribution.",
        device_dtype=device.dtype,
        reference_dtype=reference.dtype,
        shape=device.shape,
    )


def _real(values: Values) -> Numbers:
    array = values.numbers()
    return array.view(np.float64) if array.dtype.kind == "c" else array.astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Draws:
    """Two draws that should have one distribution."""

    device: Numbers
    reference: Numbers
    fuzz: float  # relative difference of values that count as the same
    together: int  # values that one draw decides

    def without_zeros(self) -> _Draws:
        return _Draws(self.device[self.device != 0], self.reference[self.reference != 0], self.fuzz, self.together)

    def nonfinite(self) -> str:
        drawn, wanted = (int(np.count_nonzero(~np.isfinite(draw))) for draw in (self.device, self.reference))
        by_chance = _DEVIATIONS * math.sqrt(2 * max(drawn, wanted) * self.together) if wanted else 0.0
        if abs(drawn - wanted) <= by_chance:
            return ""
        return f"{drawn} of {self.device.size} values are nan or inf, and {wanted or 'none'} of the reference's."

    def kept(self) -> str:
        """Return what is wrong with values that both draws of a dropout have kept: they are the same numbers."""
        both = (self.device != 0) & (self.reference != 0) & np.isfinite(self.device) & np.isfinite(self.reference)
        off = np.abs(self.device[both] - self.reference[both]) > self.fuzz * np.abs(self.reference[both])
        if not off.any():
            return ""
        first = int(np.flatnonzero(both)[np.flatnonzero(off)[0]])
        return (
            f"{np.count_nonzero(off)} of {np.count_nonzero(both)} values that are kept differ from the reference's, "
            f"first number {first}: {self.device[first]:.6g} instead of {self.reference[first]:.6g}."
        )

    def zeros(self, wanted: float) -> str:
        """Return what is wrong with the share of zeros; what the input has of them counts for both."""
        count = self.device.size
        if not count:
            return ""
        share = float(np.count_nonzero(self.device == 0)) / count
        of_reference = float(np.count_nonzero(self.reference == 0)) / count
        drawn = max(1, count // self.together)
        slack = _DEVIATIONS * math.sqrt(max(wanted * (1 - wanted), 1 / drawn) / drawn)
        # An input with zeros of its own has more of them in both draws.
        if abs(share - wanted) <= slack or abs(share - of_reference) <= slack * math.sqrt(2):
            return ""
        return f"{share:.4g} of the values are zero, where p is {wanted:.4g} (within {slack:.2g} by chance)."

    def difference(self) -> str:
        """Return what the two-sample Kolmogorov-Smirnov test has against one distribution; nothing if nothing."""
        left = np.sort(self.device[np.isfinite(self.device)])
        right = np.sort(self.reference[np.isfinite(self.reference)])
        if not left.size or not right.size:
            return ""
        gap = max(self._gap(left, right), self._gap(right, left))
        weight = left.size * right.size / (left.size + right.size) / self.together
        chance = math.e * math.exp(-2 * weight * gap * gap)  # at most, by Dvoretzky, Kiefer and Wolfowitz
        if chance >= _LEAST:
            return ""
        return (
            f"Its distribution is not the reference's: mean {left.mean():.4g} instead of {right.mean():.4g}, "
            f"spread {left.std():.4g} instead of {right.std():.4g}, "
            f"cumulative shares up to {gap:.3g} apart."
        )

    def _gap(self, more: Numbers, fewer: Numbers) -> float:
        """Return by how much the share of `more` below a value exceeds that of `fewer` below a slightly larger one."""
        below = np.arange(1, more.size + 1) / more.size
        slightly_larger = more + self.fuzz * np.abs(more)
        return float((below - np.searchsorted(fewer, slightly_larger, side="right") / fewer.size).max(initial=0.0))


def _drawn_together(api: str, shape: tuple[int, ...]) -> int:
    """Return how many values one draw decides: a dropout of features drops all of a channel."""
    channel = _CHANNEL.get(api.rpartition(".")[2].removesuffix("_"))
    return 1 if channel is None else math.prod(shape[channel:])
