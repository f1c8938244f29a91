"""Rows to the cells of the seeds' tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from torchparity.compare._columns import Mode, columns_of
from torchparity.compare._metrics import ABSENT, checksums, is_number
from torchparity.compare._rows import Row, Side
from torchparity.records import TensorLeaf

StackOf = Callable[[str], Sequence[str]]
_NO_VALUES = (ABSENT,) * 4


def frame_of(rows: Sequence[Row], mode: Mode, stack_of: StackOf | None) -> pl.DataFrame:
    """Return the table; every cell is text as the seeds write it, numbers in full."""
    sides = [[row.candidate for row in rows], [row.baseline for row in rows]]
    columns = [_texts([side.name if side else ABSENT for side in entries]) for entries in sides]
    for describe in (_dtype, _shape, _requires_grad):
        columns += [_texts([describe(side) for side in entries]) for entries in sides]
    if mode == "md5":
        columns += map(_texts, zip(*map(checksums, rows), strict=True) if rows else ((), ()))
    else:
        columns += _numbers_of(rows, mode)
        values = [[side.values() if side else _NO_VALUES for side in entries] for entries in sides]
        columns += [_numbers([entry[place] for entry in entries]) for entries in values for place in range(4)]
    agrees = (columns[6] == columns[7]).cast(pl.String).str.to_titlecase()
    columns += [agrees, _texts([row.verdict for row in rows])]
    if mode != "md5":
        columns.append(_texts([_message(row) for row in rows]))
    if stack_of is not None:
        columns.append(_texts([_stack(row, stack_of) for row in rows]))
    if mode == "real":
        files = zip(*([_file(side) for side in entries] for entries in sides), strict=True)
        columns.append(_texts([str(list(pair)) for pair in files]))
    return pl.DataFrame(dict(zip(columns_of(mode, stacks=stack_of is not None), columns, strict=True)))


def _numbers_of(rows: Sequence[Row], mode: Mode) -> list[pl.Series]:
    if mode == "real":
        return [_numbers([row.metrics[place] for row in rows]) for place in range(6)]
    differences = [_numbers([row.differences[place] for row in rows]) for place in range(4)]
    return differences + [_percents([row.relative[place] for row in rows]) for place in range(4)]


def _texts(cells: Sequence[str]) -> pl.Series:
    return pl.Series(cells, dtype=pl.String)


def _numbers(cells: Sequence[Any]) -> pl.Series:
    """Return a column of numbers as text; cell by cell only where words stand among them."""
    if set(map(type, cells)) != {float}:
        return _texts([text(cell) for cell in cells])
    return pl.Series(cells, dtype=pl.Float64).cast(pl.String).str.strip_suffix(".0").replace("NaN", "nan")


def _percents(cells: Sequence[Any]) -> pl.Series:
    """Return a column of relative errors in percent; nan and infinities have no sign."""
    if set(map(type, cells)) != {float}:
        return _texts([_percent(cell) for cell in cells])
    numbers = pl.Series(cells, dtype=pl.Float64)
    return ((numbers * 100).cast(pl.String) + "%").zip_with(numbers.is_finite(), _numbers(cells))


def _message(row: Row) -> str:
    if not row.messages and not row.reasons:
        return ""
    return "\n".join(filter(None, [" ".join(row.messages), *row.reasons]))


def _stack(row: Row, stack_of: StackOf) -> str:
    frames = stack_of(row.record) if row.is_first and row.candidate is not None else ()
    return str(list(frames)) if frames else ABSENT


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
    if isinstance(side.leaf, TensorLeaf):
        return _shape_text(side.leaf.shape)
    return "None" if side.leaf is None else "[]"


@lru_cache(maxsize=4096)
def _shape_text(shape: tuple[int, ...]) -> str:
    return str(list(shape))


def _requires_grad(side: Side | None) -> str:
    known = side.leaf.requires_grad if side is not None and isinstance(side.leaf, TensorLeaf) else None
    return ABSENT if known is None else str(known)


def _file(side: Side | None) -> str:
    if side is None:
        return ABSENT
    name = side.leaf.data_name if isinstance(side.leaf, TensorLeaf) else None
    return name or "-1"
