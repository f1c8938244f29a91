"""Colours: which rows of a record a person should look at first, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchparity.comparing.measuring.metrics import is_number, worst
from torchparity.comparing.msprobe.columns import Mode
from torchparity.comparing.msprobe.verdicts import requires_grad_agrees
from torchparity.comparing.pairing.rows import Row

_HUGE = 1e10
_ORDER = 10
_SHARE, _MAX_ABS, _COSINE = 4, 2, 0


def highlight(rows: Sequence[Row], mode: Mode) -> None:
    """Set colour and reasons of the rows of one record; red beats yellow."""
    inputs = [row for row in rows if row.is_input]
    for row in rows:
        red = _red_alone(row, mode)
        yellow = [] if requires_grad_agrees(row) else ["requires_grad is inconsistent"]
        if row.role == "output" and inputs:
            rule = _real_rules if mode == "real" else _statistics_rules
            more_red, more_yellow = rule(row, inputs)
            red, yellow = red + more_red, more_yellow + yellow
        elif row.role == "output" and mode == "statistics":
            red += _statistics_rules(row, [])[0]
        row.colour = "red" if red else "yellow" if yellow else None
        row.reasons = tuple(red or yellow)


def _red_alone(row: Row, mode: Mode) -> list[str]:
    found = []
    if row.candidate is not None:
        extremes = [value for value in row.candidate.values()[:2] if is_number(value)]
        if not all(map(math.isfinite, extremes)):
            found.append("maximum or minimum is nan, -inf, or inf")
    error = row.metrics[_MAX_ABS] if mode == "real" else row.differences[0]
    if is_number(error) and abs(error) > _HUGE:
        found.append("maximum absolute error exceeds 1e+10")
    return found


def _real_rules(row: Row, inputs: Sequence[Row]) -> tuple[list[str], list[str]]:
    red, yellow = [], []
    shares = [entry.metrics[_SHARE] for entry in inputs if is_number(entry.metrics[_SHARE])]
    share = row.metrics[_SHARE]
    if shares and is_number(share):
        if min(shares) > 0.9 and share < 0.6:
            red.append("The input/parameter's one thousandth err ratio exceeds 0.9, while the output's is below 0.6")
        if min(shares) - share > 0.1:
            yellow.append(
                "The output's one thousandth err ratio decreases by more than 0.1 compared to the input/parameter's"
            )
    yellow += _grows([entry.metrics[_MAX_ABS] for entry in inputs], row.metrics[_MAX_ABS])
    cosines = [entry.metrics[_COSINE] for entry in inputs if is_number(entry.metrics[_COSINE])]
    if cosines and is_number(row.metrics[_COSINE]) and min(cosines) - row.metrics[_COSINE] > 0.1:
        yellow.append("The output's cosine decreases by more than 0.1 compared to the input/parameter's")
    return red, yellow


def _statistics_rules(row: Row, inputs: Sequence[Row]) -> tuple[list[str], list[str]]:
    red, yellow = [], []
    difference, relative = row.differences[0], row.relative[0]
    bench: Any = row.baseline.values()[0] if row.baseline is not None else None
    if is_number(difference) and is_number(bench) and abs(difference) / max(0.01, bench) > 0.5:
        red.append("maximum relative error exceeds 0.5")
    yellow += _grows([entry.differences[0] for entry in inputs], difference)
    known = worst([entry.relative[0] for entry in inputs])
    if known is not None and known < 0.01 and is_number(relative) and relative > 0.1:
        yellow.append("The output's maximum relative error exceeds 0.1, while the input/parameter's is below 0.01")
    return red, yellow


def _grows(inputs: Sequence[object], output: object) -> list[str]:
    known = worst([abs(value) for value in inputs if is_number(value)])  # type: ignore[arg-type]
    largest = worst([abs(output)]) if is_number(output) else None  # type: ignore[arg-type]
    if known is not None and largest is not None and known > 1 and largest > 1 and largest >= _ORDER * known:
        return [
            "maximum absolute error of both input/parameters and output exceed 1, "
            "with the output larger by an order of magnitude"
        ]
    return []
