"""Numbers among the values of a run: a statistic may also be missing, a truth value or a text."""

from __future__ import annotations

import math
from typing import Any

from torchparity.comparing.pairing.items import ItemPair, Values


def is_number(value: Any) -> bool:
    """Tell whether a value can be calculated with; a truth value cannot."""
    kind = type(value)
    return kind is float or kind is int or (isinstance(value, (int, float)) and kind is not bool)


def are_floats(left: Values, right: Values) -> bool:
    """Tell whether all statistics of both sides are floats, as nearly all are."""
    a, b, c, d = left
    e, f, g, h = right
    sides_are_alike = a.__class__ is b.__class__ is c.__class__ is d.__class__ is e.__class__
    return sides_are_alike and e.__class__ is f.__class__ is g.__class__ is h.__class__ is float


def is_nan(value: Any) -> bool:
    """Tell whether a value is nan, of whatever type it is."""
    return isinstance(value, float) and value != value  # only nan is not itself


def is_nonfinite_on_one_side(pair: ItemPair) -> bool:
    """Tell whether a statistic is nan or infinite and not the same on the other side."""
    if pair.candidate is None or pair.baseline is None:
        return False
    values = zip(pair.candidate.values(), pair.baseline.values(), strict=True)
    return any(
        left != right and not (is_nan(left) and is_nan(right)) and not (math.isfinite(left) and math.isfinite(right))
        for left, right in values
        if is_number(left) and is_number(right)
    )
