"""The statistics of a tensor from the row of sums of a pass: one place for every edge case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.kernels import row as fields
from torchparity.kernels.signs import packed_sums
from torchparity.records import Number, Statistics

_VALUES = ("max", "min", "mean", "norm")
_NARROW = 32  # bytes of a sketch in float32


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
    sketch: bytes | None,
) -> Statistics:
    """Return statistics from sums over the finite numbers and counts of the others.

    `largest` and `smallest` are None where no number is finite; `mean` and `norm` do not matter then.
    One element needs no sketch.
    """
    sketch = sketch if count > 1 else None
    broken = nan + inf + negative_inf
    if not broken and count and not is_bool:  # nearly every tensor, and this is called for each
        return Statistics.of_finite(largest, smallest, mean, norm, zero, sketch)
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
        sketch=sketch,
    )


def statistics_of_row(
    count: int,
    row: Sequence[float],
    extremes: tuple[Number, Number] | None = None,
    *,
    is_bool: bool = False,
    is_wide: bool = False,
) -> Statistics:
    """Return statistics from a row of sums; `extremes` are those of integers, which keep every digit.

    The sketch has float64 where the tensor has (`is_wide`) and for integers.
    """
    # in the order of `kernels/row.py`
    total, squares, largest, smallest, zeros, nans, infs, negative_infs, *sketch = row
    finite = count - int(nans + infs + negative_infs)
    max_and_min: tuple[Number, Number] = extremes or (largest, smallest)
    return statistics_of(
        count=count,
        largest=max_and_min[0] if finite else None,
        smallest=max_and_min[1] if finite else None,
        mean=total / max(1, finite),
        norm=norm_of(squares),
        nan=int(nans),
        inf=int(infs),
        negative_inf=int(negative_infs),
        zero=int(zeros),
        is_bool=is_bool,
        sketch=packed_sums(np.array(sketch), wide=is_wide or extremes is not None),
    )


def norm_of(squares: float) -> float:
    """Return the L2 norm from the sum of the squares of the finite values."""
    return math.sqrt(squares)


def statistics_of_rows(counts: npt.NDArray[np.int64], rows: npt.NDArray[np.float64]) -> list[Statistics]:
    """Return the statistics of many tensors of floating point."""
    nonfinite = rows[:, fields.NONFINITE].sum(axis=1)
    means = (rows[:, fields.SUM] / np.maximum(1, counts - nonfinite)).tolist()
    norms = np.sqrt(rows[:, fields.SQUARES]).tolist()  # `norm_of` for all at once
    largest, smallest = rows[:, fields.MAX].tolist(), rows[:, fields.MIN].tolist()
    zeros = rows[:, fields.ZEROS].astype(np.int64).tolist()
    sketches = _narrow_sketches(counts, rows)
    statistics = list(map(Statistics.of_finite, largest, smallest, means, norms, zeros, sketches))
    for index in np.flatnonzero(nonfinite).tolist():
        statistics[index] = statistics_of_row(int(counts[index]), rows[index].tolist())
    return statistics


def _narrow_sketches(counts: npt.NDArray[np.int64], rows: npt.NDArray[np.float64]) -> list[bytes | None]:
    """Return the sketch of each tensor in float32, None for those of one element."""
    packed = packed_sums(rows[:, fields.SKETCH :], wide=False)
    return [
        packed[start : start + _NARROW] if count > 1 else None
        for start, count in zip(range(0, len(packed), _NARROW), counts.tolist(), strict=True)
    ]


def _with_nonfinite(nan: int, inf: int, negative_inf: int, largest: Number) -> dict[str, float]:
    """Return the values when nan and infinities count too."""
    if nan:
        return dict.fromkeys(_VALUES, math.nan)
    values: dict[str, float] = {"norm": math.inf}
    values["mean"] = math.nan if inf and negative_inf else math.inf if inf else -math.inf
    if inf:
        values["max"] = math.inf
    if negative_inf:
        values["min"] = -math.inf
    if largest is None:  # nothing but infinities
        extremes = {"max": math.inf if inf else -math.inf, "min": -math.inf if negative_inf else math.inf}
        values = extremes | values
    return values
