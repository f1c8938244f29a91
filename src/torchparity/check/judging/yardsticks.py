"""Results with the tested dtype's rounding, to hold a device's errors against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchparity.check.judging.explanation import sample_numbers
from torchparity.check.judging.outcome import Outcome
from torchparity.check.judging.values import NotComparableError, Values, values_of


def yardsticks(outcome: Outcome, device: Values) -> Iterator[Values]:
    """Yield results with rounding as they are needed: the CPU's own, then the emulated ones."""
    own = of_same_kind(outcome.same_dtype, device)
    if own is not None:
        yield own
    for number in sample_numbers(device.size) if outcome.emulate is not None else ():
        sample = of_same_kind(outcome.emulate(number), device) if outcome.emulate else None
        if sample is None:
            return
        yield sample


def of_same_kind(result: Any, device: Values) -> Values | None:
    """Return the numbers of a result that has the shape and the kind of the device's; None for any other."""
    values = of_same_shape(result, device)
    return values if values is not None and values.kind == device.kind else None


def of_same_shape(result: Any, device: Values) -> Values | None:
    """Return the numbers of a result that has the shape of the device's; None for any other."""
    if result is None:
        return None
    try:
        values = values_of(result)
    except NotComparableError:
        return None
    return values if values.shape == device.shape else None
