"""The row of sums that one pass over a tensor adds up; the rows of its parts combine into the row of the whole.

Sums, extremes and zeros are those of the finite numbers. Numba and Triton freeze these constants
when they compile.
"""

from __future__ import annotations

SUM, SQUARES, MAX, MIN, ZEROS, NANS, INFS, NEGATIVE_INFS = range(8)
SKETCH = 8  # the first of the sums with signs, see `signs.py`
FIELDS = 16
NONFINITE = slice(NANS, NEGATIVE_INFS + 1)
EXTREMES = slice(MAX, MIN + 1)

_LARGEST_SAFE_SQUARE = 1e140


def squares_fit_float64(extreme: float) -> bool:
    """Tell whether the squares of numbers up to `extreme` can be added up in float64 without leaving its range."""
    return not extreme or 1 / _LARGEST_SAFE_SQUARE < extreme < _LARGEST_SAFE_SQUARE
