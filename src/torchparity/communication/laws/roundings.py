"""Roundings of a reduction: how far its result may be from the exact one, whatever the order of the ranks.

A sum of n terms in a dtype of unit roundoff u is off by at most (n - 1) u times the sum of the absolute values, in
any order; by chance its roundings cancel, and few sums are off by more than a few sqrt(n) u. Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 4.2; Higham and Mary, A New Approach to Probabilistic Rounding Error
Analysis, 2019.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import ml_dtypes

from torchparity.tensors import DTYPES

_LIKELY = 6.0  # times sqrt(n): more is never seen, in millions of elements
SKETCH_FLOOR = 1e-6  # relative to the norms: sketches in float32 of tensors that were measured in another way
SKETCH_SPREAD = 2.2  # an estimate by sketches is rarely further above the truth
NUMBERS_FLOOR = 1e-5  # relative: mean and norm of float32, however a tool adds them up


class Precision(NamedTuple):
    """Unit roundoff, smallest and largest positive number of a dtype."""

    unit: float
    smallest: float
    largest: float


@cache
def precision_of(dtype: str) -> Precision | None:
    """Return the precision of a dtype of floating-point numbers; None of any other."""
    kind = DTYPES.get(dtype)
    is_number = "complex" in dtype or ("float" in dtype and not dtype.endswith("_x2"))  # two numbers in a byte
    if kind is None or kind.names is not None or not is_number:
        return None
    if kind.kind == "c":
        kind = DTYPES["torch.float32" if kind.itemsize == 8 else "torch.float64"]
    facts: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    return Precision(float(facts.eps) / 2, float(facts.smallest_subnormal), float(facts.max))


def steps_of(terms: int) -> float:
    """Return how many roundings of one sign a reduction of so many terms may show."""
    return min(float(terms), _LIKELY * math.sqrt(terms))
