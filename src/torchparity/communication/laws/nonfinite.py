"""A law about nan and inf on statistics: finite numbers stay finite, and what is not finite arrives.

The elements behind the statistics are unknown, so only what is certain is told: a sum of finite numbers that cannot
overflow is finite, a sum with a nan or an inf is not, and a copy has as many of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np

from torchparity.communication.laws.expectations import Expectation
from torchparity.communication.laws.findings import Measured
from torchparity.communication.laws.roundings import precision_of
from torchparity.records import Statistics, TensorLeaf
from torchparity.tensors import DTYPES

_ARISES = "it has nan or inf where it must be finite"
_IS_LOST = "it is finite where nan or inf must be"
_OTHER_COUNT = "it has other numbers of nan and inf"


def check_nonfinite(expected: Expectation) -> Measured | None:
    """Return the broken law where nan or inf arose or were lost for certain; None where that is not told."""
    received = expected.received.leaf
    sent = [piece.leaf for piece in chain.from_iterable(expected.rows)]
    if any(leaf.statistics is None for leaf in (received, *sent)):
        return None
    is_clean = not any(has_nonfinite(leaf) for leaf in sent)
    if is_clean and has_nonfinite(received):
        return None if _may_overflow(sent, expected.reduction, received.dtype) else _broken(_ARISES)
    must_arrive = expected.is_of_whole_tensors and expected.reduction in ("", "sum", "avg")
    return _broken(_IS_LOST) if must_arrive and not is_clean and not has_nonfinite(received) else None


def check_counts(received: TensorLeaf, sent: TensorLeaf) -> Measured | None:
    """Return the broken law where a copy has other numbers of nan and inf; None where they are the same or unknown."""
    after, before = received.statistics, sent.statistics
    if after is None or before is None:
        return None
    if has_nonfinite(received) != has_nonfinite(sent):
        return _broken(_ARISES if has_nonfinite(received) else _IS_LOST)
    counts = [(each.nan_count, each.inf_count, each.negative_inf_count) for each in (after, before)]
    return _broken(_OTHER_COUNT) if None not in chain(*counts) and counts[0] != counts[1] else None


def finite_part(leaf: TensorLeaf) -> TensorLeaf:
    """Return a tensor's facts with the statistics of its finite elements."""
    found = leaf.statistics
    if found is None or found.finite_norm is None or not has_nonfinite(leaf):
        return leaf
    finite = Statistics(found.finite_max, found.finite_min, found.finite_mean, found.finite_norm, sketch=found.sketch)
    return msgspec.structs.replace(leaf, statistics=finite)


def has_nonfinite(leaf: TensorLeaf) -> bool:
    """Tell whether nan or inf is among the elements."""
    found = leaf.statistics or Statistics()
    return not all(math.isfinite(float(each or 0)) for each in (found.max, found.min))


def may_wrap(sent: Sequence[TensorLeaf], reduction: str) -> bool:
    """Tell whether a reduction of integers may leave the range of their dtype."""
    kind = DTYPES.get(sent[0].dtype)
    if kind is None or kind.kind not in "iu" or reduction not in ("sum", "product"):
        return False
    limits = np.iinfo(kind)
    if reduction == "product":
        return math.prod(_size(leaf) for leaf in sent) > limits.max
    found = [leaf.statistics or Statistics() for leaf in sent]
    lowest = math.fsum(float(each.min or 0) for each in found)
    highest = math.fsum(float(each.max or 0) for each in found)
    return lowest < limits.min or highest > limits.max


def _may_overflow(sent: Sequence[TensorLeaf], reduction: str, dtype: str) -> bool:
    precision = precision_of(dtype)
    if precision is None or reduction in ("", "max", "min"):
        return False
    sizes = [_size(leaf) for leaf in sent]
    largest = math.prod(max(size, 1.0) for size in sizes) if reduction == "product" else math.fsum(sizes)
    return largest > precision.largest / 2  # more than rounding on the way can add


def _size(leaf: TensorLeaf) -> float:
    found = leaf.statistics or Statistics()
    return max(abs(float(found.max or 0)), abs(float(found.min or 0)))


def _broken(detail: str) -> Measured:
    return Measured("statistics", True, math.inf, 0.0, detail)
