"""Errors with one direction: too small to see in an element of half precision, plain in the sum of many.

A kernel that computes in float32 and rounds at the end gives the nearest numbers, but for a few that go either way. A
wrong constant inside makes those few go one way.
"""

from __future__ import annotations

import math

import numpy as np

from torchparity.check.judging.float_formats import FloatFormat
from torchparity.check.judging.metrics import Numbers, rounded_to

_FEWEST = 256  # elements that tell a direction
_DEVIATIONS = 8.0  # of a sum of errors that go either way
_SHARE_OF_EPSILON = 1 / 64
_TIMES = 3.0  # a bias of results with rounding, times this, is explained


def bias_of(device: Numbers, reference: Numbers, form: FloatFormat) -> float:
    """Return by which share results are too large or, negative, too small; 0 where that may be chance or precision."""
    if not form.is_half or device.size < _FEWEST or device.dtype.kind == "c":
        return 0.0
    nearest = rounded_to(reference, form)
    finite = np.isfinite(device) & np.isfinite(nearest)
    with np.errstate(invalid="ignore"):
        away = np.where(finite, device - nearest, 0.0)
    # Only what is not the nearest number says anything, and a small one among large ones little.
    moves = away[away != 0] * nearest[away != 0]
    total = float(np.square(nearest, where=finite, out=np.zeros(nearest.shape)).sum())
    if not moves.size or not total:
        return 0.0
    bias = float(moves.sum()) / total
    chance = math.sqrt(float(np.square(moves).sum())) / total
    is_certain = abs(bias) > _DEVIATIONS * chance and abs(bias) > _SHARE_OF_EPSILON * form.epsilon
    return bias if is_certain else 0.0


def is_explained(bias: float, of_rounded: float) -> bool:
    """Tell whether a result with rounding has a bias like it."""
    return abs(bias) <= _TIMES * abs(of_rounded)
