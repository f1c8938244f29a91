"""The first record that is wrong although what it received was right.

Rows agree when they are as close as rounding lets them be: a tolerance for each dtype,
finer than the seeds' verdicts, which say whether the result may still be used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

import msgspec

from torchparity.compare._columns import Mode
from torchparity.compare._metrics import ABSENT, UNMATCHED, is_number
from torchparity.compare._rows import NOTHING, Row
from torchparity.compare._verdicts import RECOMPUTED
from torchparity.records import TensorLeaf, ValueLeaf

Kind = Literal["operator", "argument", "weights", "data", "unpaired", "gap"]
_TOLERANCE = {"torch.float64": 1e-10, "torch.float32": 1e-5, "torch.float16": 5e-3, "torch.bfloat16": 4e-2}
_FLOAT8 = 0.5
_ARGUMENT = 1e-5  # a number may have been read out of a tensor of float32
_ARGUMENTS = frozenset({"bool", "int", "float", "complex", "slice", "torch.Size"})  # not devices, which may differ
_ONLY_FLOATS = {float}
_NONE_ALONE: Mapping[str, str] = {}
_MAX, _MIN, _MEAN, _NORM = range(4)


class Divergence(msgspec.Struct, frozen=True):
    """Where two runs part.

    operator: the record's inputs agree and its output does not. argument: so does another
    argument than a tensor. weights, data: what it received was different from the start.
    unpaired: its input differs, and before it are records that only one run has. gap: its
    input differs although every recorded output before it agrees, so something between was
    not recorded.
    """

    kind: Kind
    record: str
    item: str
    baseline_item: str
    deviation: float  # of the item, relative
    input_deviation: float  # the largest of what the record received
    row: int
    unpaired: str | None = None  # the first record before it that only one run has


def find_divergence(rows: Sequence[Row], mode: Mode, left_out: Mapping[str, str] = _NONE_ALONE) -> Divergence | None:
    """Return where the runs part, or None where every row agrees.

    `left_out` names, for a record of the candidate, the first record before it that only the baseline has.
    """
    made_before = {_content(row) for row in rows if row.candidate is None and row.role == "output"}
    unpaired: str | None = None
    for group in _in_order(rows):
        record = group[0].record
        if not any(row.is_matched for row in group):
            unpaired = unpaired or (None if record.endswith(RECOMPUTED) else record)
            continue
        apart = [row for row in group if is_apart(row, mode)]
        received = [row for row in apart if row.is_input and not _is_argument(row)]
        if received:
            found = max(received, key=lambda row: deviation(row, mode) or 0)
            kind, alone = _kind_of_input(found, made_before), unpaired or left_out.get(record)
            if kind != "weights" and alone is not None:
                kind = "unpaired"
            return _divergence(kind, found, group, mode, rows, alone)
        if any(not row.is_input for row in apart):
            arguments = [row for row in apart if row.is_input]
            found = max(arguments or apart, key=lambda row: deviation(row, mode) or 0)
            return _divergence("argument" if arguments else "operator", found, group, mode, rows, None)
        made_before |= {_content(row) for row in group if row.role == "output"}
    return None


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
    return _of_statistics(row) if mode == "statistics" else _of_values(row)


def _of_argument(left: Any, right: Any) -> float:
    if left == right or (left != left and right != right):  # nan is not itself
        return 0.0
    return abs((left - right) / right) if is_number(left) and is_number(right) and right else 1.0


def _of_statistics(row: Row) -> float | None:
    """Return how far max and min are off, relative to the larger of them, and the norm, relative to itself.

    A smallest value near zero is what rounding left of it: relative to itself it may be off by anything.
    """
    if row.candidate is None or row.baseline is None:
        return None
    mine, other = row.candidate.values(), row.baseline.values()
    if set(map(type, mine + other)) == _ONLY_FLOATS:  # nearly every row
        largest, smallest, _, norm = other
        scale, above, below = max(abs(largest), abs(smallest)), abs(mine[0] - largest), abs(mine[1] - smallest)
        if 0 < scale < math.inf and 0 < norm < math.inf and above + below + mine[3] < math.inf:
            return float(max(above / scale, below / scale, abs(mine[3] - norm) / norm))
    if row.verdict == "Warning" and any(error != error for error in row.relative):
        return math.inf
    scale = max((abs(value) for value in other[:_MEAN] if _is_scale(value)), default=0.0)
    known = [_of_statistic(mine[place], other[place], scale) for place in (_MAX, _MIN)]
    if scale:
        known.append(_of_statistic(mine[_NORM], other[_NORM], abs(other[_NORM]) if _is_scale(other[_NORM]) else scale))
    return max((error for error in known if error is not None), default=None)


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


def is_apart(row: Row, mode: Mode) -> bool:
    """Tell whether the two sides differ by more than rounding."""
    found = deviation(row, mode)
    return found is not None and found > 0 and found > _tolerance(row)


def _tolerance(row: Row) -> float:
    """Return what rounding may make of a row: the coarser of its two dtypes decides."""
    leaves = [side.leaf for side in (row.candidate, row.baseline) if side is not None]
    if leaves[0].__class__ is leaves[-1].__class__ is TensorLeaf:  # nearly every row
        return max(_rounding(leaves[0].dtype), _rounding(leaves[-1].dtype))
    if _is_argument(row):
        return _ARGUMENT if any(isinstance(leaf, ValueLeaf) and leaf.type == "float" for leaf in leaves) else 0.0
    return max(_rounding(leaf.dtype) for leaf in leaves if isinstance(leaf, TensorLeaf))


@lru_cache(maxsize=64)
def _rounding(dtype: str) -> float:
    return _FLOAT8 if dtype.startswith("torch.float8") else _TOLERANCE.get(dtype, 0.0)


def _is_argument(row: Row) -> bool:
    return not any(side is not None and side.is_tensor for side in (row.candidate, row.baseline))


def _in_order(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows by record in the order of time; gradients of parameters may stand among forward records."""
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row.record)]
    late = [group for group in groups if group[0].direction == "parameters_grad"]
    rest = [group for group in groups if group[0].direction != "parameters_grad"]
    last = max((place for place, group in enumerate(rest) if group[0].direction == "backward"), default=len(rest) - 1)
    return rest[: last + 1] + late + rest[last + 1 :]


def _kind_of_input(row: Row, made_before: set[object]) -> Kind:
    """Tell what an input is that differs while everything made before it agrees."""
    leaf = row.baseline.leaf if row.baseline is not None else None
    if row.direction != "forward" or _content(row) in made_before:
        return "gap"
    if row.role == "parameters":
        return "weights"
    if not isinstance(leaf, TensorLeaf) or not leaf.requires_grad:
        return "data"
    if row.record.startswith("Module.") and made_before:
        return "gap"  # its weights are its parameters; what else needs a gradient was computed
    return "weights"


def _content(row: Row) -> object:
    """Return what tells one recorded tensor of the baseline from another."""
    leaf = row.baseline.leaf if row.baseline is not None else None
    if not isinstance(leaf, TensorLeaf):
        return None
    return leaf.shape, leaf.checksum, leaf.statistics if leaf.statistics is not None else leaf.stored_in


def _divergence(
    kind: Kind, row: Row, group: Sequence[Row], mode: Mode, rows: Sequence[Row], unpaired: str | None
) -> Divergence:
    received = [deviation(entry, mode) or 0.0 for entry in group if entry.is_input]
    return Divergence(
        kind=kind,
        record=row.record,
        item=row.name,
        baseline_item=row.baseline.name if row.baseline is not None else ABSENT,
        deviation=deviation(row, mode) or 0.0,
        input_deviation=max(received, default=0.0),
        row=next(number for number, entry in enumerate(rows) if entry is row),
        unpaired=unpaired if kind == "unpaired" else None,
    )
