"""How far the two sides of a row are apart, and what rounding may make of it.

Rows agree when they are as close as rounding lets them be: a tolerance for each dtype,
finer than the seeds' verdicts, which say whether the result may still be used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from torchparity.comparing.measuring.metrics import ABSENT, UNMATCHED, is_nonfinite_on_one_side, is_number
from torchparity.comparing.msprobe.columns import Mode
from torchparity.comparing.pairing.rows import NOTHING, Row, Side
from torchparity.records import Leaf, TensorLeaf, ValueLeaf

_TOLERANCE = {"torch.float64": 1e-10, "torch.float32": 1e-5, "torch.float16": 5e-3, "torch.bfloat16": 4e-2}
_OF_EQUALS = {"torch.float16": 2e-3, "torch.bfloat16": 1e-2}  # what is computed from equal inputs may be off by less
_UNIT = {"torch.float64": 2.0**-53, "torch.float32": 2.0**-24, "torch.float16": 2.0**-11, "torch.bfloat16": 2.0**-8}
_FLOAT8 = 0.5
_ARGUMENT = 1e-5  # a number may have been read out of a tensor of float32
_ARGUMENTS = frozenset({"bool", "int", "float", "complex", "slice", "torch.Size"})  # not devices, which may differ
_ONLY_FLOATS = {float}
_SUMS_OF_INTEGERS = 1e-6  # msprobe has their mean and norm in float32, and of one number the norm with its sign
_MAX, _MIN, _MEAN, _NORM = range(4)
_SUMMED = 4  # elements from which an output is taken for a sum
_MARGIN = 8.0


def deviation(row: Row, mode: Mode) -> float | None:
    """Return how far the two sides are apart, relative to the baseline; None where they cannot be compared."""
    if row.candidate is None or row.baseline is None:
        return math.inf if row.is_replaced else None
    mine, other = row.candidate.leaf, row.baseline.leaf
    if isinstance(mine, TensorLeaf) and isinstance(other, TensorLeaf) and mine.shape != other.shape:
        return math.inf
    if mode == "md5":
        return {"Different": math.inf, "Pass": 0.0}.get(row.verdict)
    if isinstance(mine, ValueLeaf) and isinstance(other, ValueLeaf):
        kinds = {mine.type, other.type}
        return _of_argument(row.candidate.values()[0], row.baseline.values()[0]) if kinds <= _ARGUMENTS else None
    if mode == "real" and _has_values(mine) and _has_values(other):
        return _of_values(row)
    return _of_statistics(row)


def _has_values(leaf: Leaf) -> bool:
    return isinstance(leaf, TensorLeaf) and leaf.data_name is not None


def _of_argument(left: Any, right: Any) -> float:
    if left == right or (left != left and right != right):  # nan is not itself
        return 0.0
    return abs((left - right) / right) if is_number(left) and is_number(right) and right else 1.0


def _of_statistics(row: Row) -> float | None:
    """Return how far max and min are off, relative to the larger of them, the norm, relative to itself, and the mean.

    A mean is off by no more than the whole, relative to the norm over the root of the count.
    A smallest value near zero is what rounding left of it: relative to itself it may be off by anything.
    """
    if row.candidate is None or row.baseline is None:
        return None
    mine, other = row.candidate.values(), row.baseline.values()
    if set(map(type, mine + other)) == _ONLY_FLOATS:  # nearly every row
        largest, smallest, mean, norm = other
        scale, above, below = max(abs(largest), abs(smallest)), abs(mine[0] - largest), abs(mine[1] - smallest)
        if 0 < scale < math.inf and 0 < norm < math.inf and above + below + mine[3] + abs(mine[2] - mean) < math.inf:
            shifted = abs(mine[2] - mean) * _root_of_count(row.baseline) if mine[2] != mean else 0.0
            return float(max(above / scale, below / scale, abs(abs(mine[3]) - norm) / norm, shifted / norm))
    if is_nonfinite_on_one_side(row):
        return math.inf
    scale = max((abs(value) for value in other[:_MEAN] if _is_scale(value)), default=0.0)
    known = [_of_statistic(mine[place], other[place], scale) for place in (_MAX, _MIN)]
    sums: list[float | None] = []
    if _is_scale(other[_NORM]) and is_number(mine[_MEAN]) and is_number(other[_MEAN]):
        unit = abs(other[_NORM]) / _root_of_count(row.baseline)
        sums.append(_of_statistic(mine[_MEAN], other[_MEAN], unit))
    if scale:
        norm, whole = (abs(norm) if is_number(norm) else norm for norm in (mine[_NORM], other[_NORM]))
        sums.append(_of_statistic(norm, whole, whole if _is_scale(whole) else scale))
    if not _tolerance(row, from_equals=False):
        sums = [0.0 if error is not None and error < _SUMS_OF_INTEGERS else error for error in sums]
    return max((error for error in known + sums if error is not None), default=None)


def _root_of_count(side: Side) -> float:
    return math.sqrt(side.leaf.numel) if isinstance(side.leaf, TensorLeaf) and side.leaf.numel else 1.0


def _of_statistic(left: Any, right: Any, scale: float) -> float | None:
    """Return how far one statistic is off; masks have truth values, which are apart or not."""
    if left is None or right is None:
        return None
    if left == right or (left != left and right != right):  # nan is not itself
        return 0.0
    if not is_number(left) or not is_number(right):
        return 1.0
    return float(abs(left - right) / (scale or 1.0))


def _of_values(row: Row) -> float | None:
    if UNMATCHED in row.metrics or ABSENT in row.metrics:
        return math.inf
    _, distance, max_abs, max_relative, *_ = row.metrics
    if not is_number(distance):
        return float(max_relative) if is_number(max_relative) else None
    values: Sequence[Any] = row.baseline.values() if row.baseline is not None else NOTHING
    *extremes, _, norm = values
    if _is_scale(norm):
        return float(distance / norm)
    # Other tools keep no norm of float64, and that of float16 overflows.
    scale = max((abs(value) for value in extremes if _is_scale(value)), default=1.0)
    return float(max_abs / scale)


def _is_scale(value: Any) -> bool:
    return is_number(value) and value != 0 and math.isfinite(value)


def is_apart(row: Row, mode: Mode, *, from_equals: bool = False) -> bool:
    """Tell whether the two sides differ by more than rounding; what comes from equal inputs has less of it."""
    found = deviation(row, mode)
    return found is not None and found > 0 and found > _tolerance(row, from_equals)


def is_cancelled(row: Row, inputs: Sequence[Row], mode: Mode) -> bool:
    """Tell whether a gradient is a sum of so much that cancels that rounding is all there is to see.

    The gradient of a bias before a batch norm, say, is zero but for rounding.
    """
    leaf = row.baseline.leaf if row.baseline is not None else None
    sources = [entry.baseline for entry in inputs if entry.baseline is not None and entry.baseline.is_tensor]
    off = _absolute(row, mode)
    if not isinstance(leaf, TensorLeaf) or not sources or off is None or row.direction == "forward":
        return False
    summed = max(side.leaf.numel for side in sources if isinstance(side.leaf, TensorLeaf)) / max(1, leaf.numel)
    scale = max((abs(value) for side in sources for value in side.values()[:2] if _is_scale(value)), default=0.0)
    return summed >= _SUMMED and off <= _MARGIN * _UNIT.get(leaf.dtype, 0.0) * scale * math.sqrt(summed)


def _absolute(row: Row, mode: Mode) -> float | None:
    """Return the largest difference that is known."""
    if mode == "real":
        return float(row.metrics[2]) if is_number(row.metrics[2]) else None
    if mode == "md5" or row.candidate is None or row.baseline is None:
        return None
    pairs = zip(row.candidate.values()[:2], row.baseline.values()[:2], strict=True)
    known = [abs(left - right) for left, right in pairs if is_number(left) and is_number(right)]
    return max(known, default=None)


def _tolerance(row: Row, from_equals: bool) -> float:
    """Return what rounding may make of a row: the coarser of its two dtypes decides."""
    leaves = [side.leaf for side in (row.candidate, row.baseline) if side is not None]
    if leaves[0].__class__ is leaves[-1].__class__ is TensorLeaf:  # nearly every row
        return max(_rounding(leaves[0].dtype, from_equals), _rounding(leaves[-1].dtype, from_equals))
    if is_argument(row):
        return _ARGUMENT if any(isinstance(leaf, ValueLeaf) and leaf.type == "float" for leaf in leaves) else 0.0
    return max(_rounding(leaf.dtype, from_equals) for leaf in leaves if isinstance(leaf, TensorLeaf))


@lru_cache(maxsize=64)
def _rounding(dtype: str, from_equals: bool) -> float:
    if dtype.startswith("torch.float8"):
        return _FLOAT8
    usual = _TOLERANCE.get(dtype, 0.0)
    return _OF_EQUALS.get(dtype, usual) if from_equals else usual


def is_argument(row: Row) -> bool:
    return not any(side is not None and side.is_tensor for side in (row.candidate, row.baseline))
