"""From what a pass adds up to the statistics of a tensor: one place for every edge case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.records import Number, Statistics

Known = tuple[tuple[int, int], bool]  # an integer tensor's extremes with every digit, and whether it is of bool
_VALUES = ("max", "min", "mean", "norm")


def statistics_of(
    *,
    count: int,
    largest: Number,
    smallest: Number,
    mean: float,
    norm: float,
    nan: int,
    inf: int,
    negative_inf: int,
    zero: int,
    is_bool: bool,
) -> Statistics:
    """Return statistics from sums over the finite numbers and counts of the others.

    `largest` and `smallest` are None where no number is finite; `mean` and `norm` do not matter then.
    """
    broken = nan + inf + negative_inf
    if not broken and count and not is_bool:  # nearly every tensor, and this is called for each
        return Statistics.of_finite(largest, smallest, mean, norm, zero)
    finite: dict[str, Any] = dict.fromkeys(_VALUES)
    if count > broken:
        finite = {"max": largest, "min": smallest, "mean": mean, "norm": norm}
    if is_bool and count:
        finite |= {"max": bool(largest), "min": bool(smallest), "norm": None}
    every = finite | _with_nonfinite(nan, inf, negative_inf, largest) if broken else finite
    return Statistics(
        **every,
        **{f"finite_{name}": value for name, value in finite.items()},
        nan_count=nan,
        inf_count=inf,
        negative_inf_count=negative_inf,
        zero_count=zero,
    )


def statistics_of_row(
    count: int, row: Sequence[float], extremes: tuple[Number, Number] | None = None, *, is_bool: bool = False
) -> Statistics:
    """Return statistics from what a pass adds up; `extremes` are those of integers, which keep every digit."""
    total, squares, largest, smallest, zeros, nans, infs, negative_infs = row
    finite = count - int(nans + infs + negative_infs)
    known: tuple[Number, Number] = extremes or (largest, smallest)
    return statistics_of(
        count=count,
        largest=known[0] if finite else None,
        smallest=known[1] if finite else None,
        mean=total / max(1, finite),
        norm=squares**0.5,
        nan=int(nans),
        inf=int(infs),
        negative_inf=int(negative_infs),
        zero=int(zeros),
        is_bool=is_bool,
    )


def statistics_of_rows(
    counts: npt.NDArray[np.int64], rows: npt.NDArray[np.float64], known: Sequence[Known | None] | None = None
) -> list[Statistics]:
    """Return the statistics of many tensors; `known` has what rows do not say of integers."""
    broken = rows[:, 5:].sum(axis=1)
    means, norms = rows[:, 0] / np.maximum(1, counts - broken), np.sqrt(rows[:, 1])
    largest, smallest, zeros = rows[:, 2].tolist(), rows[:, 3].tolist(), rows[:, 4].astype(np.int64).tolist()
    found = list(map(Statistics.of_finite, largest, smallest, means.tolist(), norms.tolist(), zeros))
    for index in np.flatnonzero(broken).tolist():
        found[index] = statistics_of_row(int(counts[index]), rows[index].tolist())
    for index, entry in enumerate(known or ()):
        if entry is not None:
            extremes, is_bool = entry
            found[index] = statistics_of_row(int(counts[index]), rows[index].tolist(), extremes, is_bool=is_bool)
    return found


def _with_nonfinite(nan: int, inf: int, negative_inf: int, largest: Number) -> dict[str, float]:
    """Return what the values are when nan and infinities are not left out."""
    if nan:
        return dict.fromkeys(_VALUES, math.nan)
    found: dict[str, float] = {"norm": math.inf}
    found["mean"] = math.nan if inf and negative_inf else math.inf if inf else -math.inf
    if inf:
        found["max"] = math.inf
    if negative_inf:
        found["min"] = -math.inf
    if largest is None:  # nothing but infinities
        extremes = {"max": math.inf if inf else -math.inf, "min": -math.inf if negative_inf else math.inf}
        found = extremes | found
    return found
