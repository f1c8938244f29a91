"""Rows to the cells of the seeds' tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from torchparity.compare._columns import Mode, columns_of
from torchparity.compare._metrics import ABSENT, checksums, is_number
from torchparity.compare._rows import Row, Side
from torchparity.compare._verdicts import requires_grad_agrees
from torchparity.records import TensorLeaf

StackOf = Callable[[str], Sequence[str]]


def frame_of(rows: Sequence[Row], mode: Mode, stack_of: StackOf | None) -> pl.DataFrame:
    """Return the table; every cell is text as the seeds write it, numbers in full."""
    columns = columns_of(mode, stacks=stack_of is not None)
    cells = [_cells(row, mode, stack_of) for row in rows]
    return pl.DataFrame(cells, schema=dict.fromkeys(columns, pl.String), orient="row")


def _cells(row: Row, mode: Mode, stack_of: StackOf | None) -> list[str]:
    left, right = row.candidate, row.baseline
    sides = (left, right)
    cells = [side.name if side else ABSENT for side in sides]
    for describe in (_dtype, _shape, _requires_grad):
        cells += [describe(side) for side in sides]
    if mode == "md5":
        cells += checksums(row)
    else:
        cells += map(text, row.metrics) if mode == "real" else _statistics_cells(row)
        cells += [text(value) for side in sides for value in (side.values() if side else (ABSENT,) * 4)]
    cells += [str(requires_grad_agrees(row)), row.verdict]
    if mode != "md5":
        cells.append("\n".join(filter(None, [" ".join(row.messages), *row.reasons])))
    if stack_of is not None:
        frames = stack_of(row.record) if row.is_first and row.candidate is not None else ()
        cells.append(str(list(frames)) if frames else ABSENT)
    if mode == "real":
        cells.append(str([_file(side) for side in sides]))
    return cells


def _statistics_cells(row: Row) -> list[str]:
    return [text(value) for value in row.differences] + [_percent(value) for value in row.relative]


def text(value: Any) -> str:
    """Return a cell: whole floats without a fraction, nan and infinities as words."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return str(value)


def _percent(value: Any) -> str:
    if not is_number(value):
        return str(value)
    return text(value) if not math.isfinite(value) else f"{value * 100}%"


def _dtype(side: Side | None) -> str:
    if side is None:
        return ABSENT
    leaf = side.leaf
    if isinstance(leaf, TensorLeaf):
        return leaf.dtype
    return "None" if leaf is None else f"<class '{leaf.type}'>"


def _shape(side: Side | None) -> str:
    if side is None:
        return ABSENT
    return str(list(side.leaf.shape)) if isinstance(side.leaf, TensorLeaf) else "None" if side.leaf is None else "[]"


def _requires_grad(side: Side | None) -> str:
    known = side.leaf.requires_grad if side is not None and isinstance(side.leaf, TensorLeaf) else None
    return ABSENT if known is None else str(known)


def _file(side: Side | None) -> str:
    if side is None:
        return ABSENT
    name = side.leaf.data_name if isinstance(side.leaf, TensorLeaf) else None
    return name or "-1"
