"""msprobe's colours: which rows of a record a person should look at first, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from torchparity.comparing.measuring.item_comparison import ItemComparison, Number, StatisticsDifference
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.measuring.numbers import is_number
from torchparity.comparing.msprobe.metrics import six_metrics
from torchparity.comparing.msprobe.verdicts import requires_grad_agrees
from torchparity.comparing.pairing.items import NO_VALUES

_HUGE = 1e10
_ORDER = 10
ERROR_APPEARS = "The output's maximum relative error exceeds 0.1, while the input/parameter's is below 0.01"


class Highlight(msgspec.Struct, frozen=True):
    """The colour of a row, and the reasons for it."""

    colour: str | None = None
    reasons: tuple[str, ...] = ()


Rules = tuple[list[str], list[str]]  # reasons for red, reasons for yellow


def highlights(comparisons: Sequence[ItemComparison], mode: Mode) -> list[Highlight]:
    """Return the colours of the rows of one record; red beats yellow."""
    inputs = [entry for entry in comparisons if entry.is_input]
    return [_highlight(entry, inputs, mode) for entry in comparisons]


def _highlight(comparison: ItemComparison, inputs: Sequence[ItemComparison], mode: Mode) -> Highlight:
    red = red_alone(comparison, mode)
    yellow = [] if requires_grad_agrees(comparison.pair) else ["requires_grad is inconsistent"]
    if comparison.role == "output" and inputs:
        rules = value_rules if mode == "values" else statistics_rules
        more_red, more_yellow = rules(comparison, inputs)
        red, yellow = red + more_red, more_yellow + yellow
    elif comparison.role == "output" and mode == "statistics":
        red += statistics_rules(comparison, [])[0]
    return Highlight("red" if red else "yellow" if yellow else None, tuple(red or yellow))


def red_alone(comparison: ItemComparison, mode: Mode) -> list[str]:
    """Return the reasons for red that a row has by itself."""
    reasons = []
    if comparison.candidate is not None:
        extremes = [value for value in comparison.candidate.values()[:2] if is_number(value)]
        if not all(map(math.isfinite, extremes)):
            reasons.append("maximum or minimum is nan, -inf, or inf")
    error = max_error(comparison, mode)
    if error is not None and abs(error) > _HUGE:
        reasons.append("maximum absolute error exceeds 1e+10")
    return reasons


def max_error(comparison: ItemComparison, mode: Mode) -> Number | None:
    """Return the number that the rules call the maximum absolute error."""
    return six_metrics(comparison).max_abs if mode == "values" else _difference(comparison).absolute[0]


def value_rules(comparison: ItemComparison, inputs: Sequence[ItemComparison]) -> Rules:
    """Return the reasons that an output of real data has against what its record received."""
    red, yellow = [], []
    output, received = six_metrics(comparison), [six_metrics(entry) for entry in inputs]
    shares = [entry.within_1e3 for entry in received if entry.within_1e3 is not None]
    if shares and output.within_1e3 is not None:
        if min(shares) > 0.9 and output.within_1e3 < 0.6:
            red.append("The input/parameter's one thousandth err ratio exceeds 0.9, while the output's is below 0.6")
        if min(shares) - output.within_1e3 > 0.1:
            yellow.append(
                "The output's one thousandth err ratio decreases by more than 0.1 compared to the input/parameter's"
            )
    yellow += _grows([entry.max_abs for entry in received], output.max_abs)
    yellow += _appears([entry.max_relative for entry in received], output.max_relative)
    cosines = [entry.cosine for entry in received if entry.cosine is not None]
    if cosines and output.cosine is not None and min(cosines) - output.cosine > 0.1:
        yellow.append("The output's cosine decreases by more than 0.1 compared to the input/parameter's")
    return red, yellow


def statistics_rules(comparison: ItemComparison, inputs: Sequence[ItemComparison]) -> Rules:
    """Return the reasons that an output of statistics has against what its record received."""
    red, yellow = [], []
    output, received = _difference(comparison), [_difference(entry) for entry in inputs]
    difference = output.absolute[0]
    bench: Any = comparison.baseline.values()[0] if comparison.baseline is not None else None
    if difference is not None and is_number(bench) and abs(difference) / max(0.01, bench) > 0.5:
        red.append("maximum relative error exceeds 0.5")
    yellow += _grows([entry.absolute[0] for entry in received], difference)
    yellow += _appears([entry.relative[0] for entry in received], output.relative[0])
    return red, yellow


_NO_DIFFERENCE = StatisticsDifference(NO_VALUES, NO_VALUES)


def _difference(comparison: ItemComparison) -> StatisticsDifference:
    return comparison.statistics or _NO_DIFFERENCE


def _grows(inputs: Iterable[Number | None], output: Number | None) -> list[str]:
    largest_input, largest = _worst(inputs), _worst([output])
    if largest_input is None or largest is None:
        return []
    if largest_input > 1 and largest > 1 and largest >= _ORDER * largest_input:
        return [
            "maximum absolute error of both input/parameters and output exceed 1, "
            "with the output larger by an order of magnitude"
        ]
    return []


def _appears(inputs: Iterable[Number | None], output: Number | None) -> list[str]:
    largest_input = _worst(inputs)
    if largest_input is not None and largest_input < 0.01 and output is not None and output > 0.1:
        return [ERROR_APPEARS]
    return []


def _worst(numbers: Iterable[Number | None]) -> Number | None:
    """Return the largest of some numbers without their signs; nan counts as infinite."""
    sizes = [math.inf if math.isnan(number) else abs(number) for number in numbers if number is not None]
    return max(sizes, default=None)
