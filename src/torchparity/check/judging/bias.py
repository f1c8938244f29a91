"""Errors with one direction: too small to see in an element of half precision, plain in the sum of many.

A kernel that computes in float32 and rounds at the end gives the nearest numbers, but for a few that go either way. A
wrong constant inside makes those few go one way.
"""

from __future__ import annotations

import math

import numpy as np

from torchparity.check.judging.float_formats import FloatFormat
from torchparity.check.judging.values import Values, blocks

_FEWEST = 256  # elements that tell a direction
_MOST_SORTED = 1 << 16
_DEVIATIONS = 8.0  # of a sum of errors that go either way
_SHARE_OF_EPSILON = 1 / 64
_MOST_OF_EPSILON = 1 / 2  # cutting off instead of rounding makes a third
_TIMES = 3.0  # a bias of results with rounding, times this, is explained


def certain_bias(device: Values, reference: Values, form: FloatFormat) -> float:
    """Return by which share results are too large or, negative, too small; 0 where that may be chance or precision."""
    if not form.is_half or device.size < _FEWEST or device.kind == "complex":
        return 0.0
    middle = middle_bias(device, reference, form)
    if abs(middle) > form.epsilon:  # more than any way to round makes
        return middle
    bias, chance = bias_of(device, reference, form)
    is_certain = abs(bias) > _DEVIATIONS * chance and abs(bias) > _SHARE_OF_EPSILON * form.epsilon
    return bias if is_certain else 0.0


def bias_of(device: Values, reference: Values, form: FloatFormat) -> tuple[float, float]:
    """Return a bias, and how large it gets by chance where errors go either way."""
    total = moved = squares = 0.0
    for _, tested, right in blocks(device, reference):
        nearest = form.rounded(right)
        finite = np.isfinite(tested) & np.isfinite(nearest)
        tested, nearest = tested[finite], nearest[finite]
        # Only what is not the nearest number says anything, and a small one among large ones little.
        moves = (tested - nearest) * nearest
        total += float(np.square(nearest).sum())
        moved += float(moves.sum())
        squares += float(np.square(moves).sum())
    return (moved / total, math.sqrt(squares) / total) if total else (0.0, 0.0)


def middle_bias(device: Values, reference: Values, form: FloatFormat) -> float:
    """Return the share by which the element in the middle is off; a few large ones do not hide the others in it."""
    step = max(1, device.size // _MOST_SORTED)
    tested, nearest = device.numbers(slice(None, None, step)), form.rounded(reference.numbers(slice(None, None, step)))
    usable = np.isfinite(tested) & np.isfinite(nearest) & (np.abs(nearest) >= form.smallest_normal)
    if not usable.any():
        return 0.0
    return float(np.median((tested[usable] - nearest[usable]) / nearest[usable]))


def is_beyond_rounding(bias: float, form: FloatFormat) -> bool:
    """Tell whether a bias is more than any way to round makes."""
    return abs(bias) > _MOST_OF_EPSILON * form.epsilon


def is_explained(bias: float, rounded: Values, reference: Values, form: FloatFormat) -> bool:
    """Tell whether a result with rounding has a bias like it, by more than chance."""
    of_rounded, chance = bias_of(rounded, reference, form)
    return abs(bias) <= _TIMES * max(abs(of_rounded) - chance, abs(middle_bias(rounded, reference, form)))
