"""Numbers among the values of a run: a statistic may also be missing, a truth value or a text."""

from __future__ import annotations

import math
from typing import Any

from torchparity.comparing.pairing.items import ItemPair, Values

_ONLY_FLOATS = {float}


def is_number(value: Any) -> bool:
    """Tell whether a value can be calculated with; a truth value cannot."""
    kind = type(value)
    return kind is float or kind is int or (isinstance(value, (int, float)) and kind is not bool)


def are_floats(left: Values, right: Values) -> bool:
    """Tell whether all statistics of both sides are floats, as nearly all are."""
    return set(map(type, left + right)) == _ONLY_FLOATS


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
