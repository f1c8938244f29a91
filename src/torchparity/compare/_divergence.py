"""The first record that is wrong although what it received was right.

Rows agree when they are as close as rounding lets them be: a tolerance for each dtype,
finer than the seeds' verdicts, which say whether the result may still be used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from torchparity.compare._columns import Mode
from torchparity.compare._metrics import ABSENT, UNMATCHED, is_number
from torchparity.compare._rows import Row
from torchparity.records import TensorLeaf

Kind = Literal["operator", "weights", "data", "unpaired", "gap"]
_TOLERANCE = {"torch.float64": 1e-10, "torch.float32": 1e-5, "torch.float16": 5e-3, "torch.bfloat16": 4e-2}
_FLOAT8 = 0.5
_MAX, _MIN, _NORM = 0, 1, 3


class Divergence(msgspec.Struct, frozen=True):
    """Where two runs part.

    operator: the record's inputs agree and its output does not. weights, data: what it
    received was different from the start. unpaired: its input differs, and before it are
    records that only one run has. gap: its input differs although every recorded output
    before it agrees, so something between was not recorded.
    """

    kind: Kind
    record: str
    item: str
    baseline_item: str
    deviation: float  # of the item, relative
    input_deviation: float  # the largest of what the record received
    row: int
    unpaired: str | None = None  # the first record before it that only one run has


def find_divergence(rows: Sequence[Row], mode: Mode) -> Divergence | None:
    """Return where the runs part, or None where every row agrees."""
    made_before: set[object] = set()
    unpaired: str | None = None
    for group in _in_order(rows):
        if not any(row.is_matched for row in group):
            unpaired = unpaired or group[0].record
            continue
        received = [row for row in group if row.is_input and is_apart(row, mode)]
        if received:
            found = max(received, key=lambda row: deviation(row, mode) or 0)
            kind = _kind_of_input(found, made_before)
            if kind != "weights" and unpaired is not None:
                kind = "unpaired"
            return _divergence(kind, found, group, mode, rows, unpaired)
        made = [row for row in group if not row.is_input and is_apart(row, mode)]
        if made:
            found = max(made, key=lambda row: deviation(row, mode) or 0)
            return _divergence("operator", found, group, mode, rows, None)
        made_before |= {_content(row) for row in group if row.role == "output"}
    return None


def deviation(row: Row, mode: Mode) -> float | None:
    """Return how far the two sides are apart, relative to the baseline; None where they cannot be compared."""
    if not row.is_matched:
        return None
    if mode == "md5":
        return math.inf if row.verdict == "Different" else 0.0
    if mode == "statistics":
        known = [row.relative[place] for place in (_MAX, _MIN, _NORM)]
        numbers = [error for error in known if is_number(error)]
        if row.verdict == "Warning" and any(math.isnan(error) for error in numbers):
            return math.inf
        return max((error for error in numbers if not math.isnan(error)), default=None)
    if UNMATCHED in row.metrics or ABSENT in row.metrics:
        return math.inf
    _, distance, max_abs, max_relative, *_ = row.metrics
    if not is_number(distance):
        return float(max_relative) if is_number(max_relative) else None
    norm = row.baseline.values()[_NORM] if row.baseline is not None else None
    return float(distance / norm) if is_number(norm) and norm and math.isfinite(norm) else float(max_abs)


def is_apart(row: Row, mode: Mode) -> bool:
    """Tell whether the two sides differ by more than rounding."""
    found = deviation(row, mode)
    return found is not None and found > _tolerance(row)


def _tolerance(row: Row) -> float:
    leaf = row.baseline.leaf if row.baseline is not None else None
    if not isinstance(leaf, TensorLeaf):
        return 0.0
    return _FLOAT8 if leaf.dtype.startswith("torch.float8") else _TOLERANCE.get(leaf.dtype, 0.0)


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
    is_weight = row.role == "parameters" or (isinstance(leaf, TensorLeaf) and leaf.requires_grad)
    return "weights" if is_weight else "data"


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
