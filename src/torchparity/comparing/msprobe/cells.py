"""Rows to the cells of the seeds' tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from torchparity.comparing.measuring.metrics import ABSENT, checksums
from torchparity.comparing.msprobe.columns import Mode, columns_of
from torchparity.comparing.pairing.rows import Row, Side
from torchparity.records import TensorLeaf

StackOf = Callable[[str], Sequence[str]]
_NO_VALUES = (ABSENT,) * 4


def frame_of(rows: Sequence[Row], mode: Mode, stack_of: StackOf | None) -> pl.DataFrame:
    """Return the table; every cell is text as the seeds write it, numbers in full."""
    cells = _Columns(columns_of(mode, stacks=stack_of is not None))
    sides = [[row.candidate for row in rows], [row.baseline for row in rows]]
    for entries in sides:
        cells.add_texts([side.name if side else ABSENT for side in entries])
    for describe in (_dtype, _shape, _requires_grad):
        for entries in sides:
            cells.add_texts([describe(side) for side in entries])
    if mode == "md5":
        for column in zip(*map(checksums, rows), strict=True) if rows else ((), ()):
            cells.add_texts(column)
    else:
        _add_numbers(cells, rows, sides, mode)
    agree = pl.col("NPU Requires_grad") == pl.col("Bench Requires_grad")
    cells.add(pl.when(agree).then(pl.lit("True")).otherwise(pl.lit("False")))
    cells.add_texts([row.verdict for row in rows])
    if mode != "md5":
        cells.add_texts([_message(row) for row in rows])
    if stack_of is not None:
        cells.add_texts([_stack(row, stack_of) for row in rows])
    if mode == "real":
        files = zip(*([_file(side) for side in entries] for entries in sides), strict=True)
        cells.add_texts([str(list(pair)) for pair in files])
    return cells.frame()


def _add_numbers(cells: _Columns, rows: Sequence[Row], sides: Sequence[Sequence[Side | None]], mode: Mode) -> None:
    if mode == "real":
        for place in range(6):
            cells.add_numbers([row.metrics[place] for row in rows])
    else:
        for place in range(4):
            cells.add_numbers([row.differences[place] for row in rows])
        for place in range(4):
            cells.add_numbers([row.relative[place] for row in rows], as_percent=True)
    for entries in sides:
        values = [side.values() if side else _NO_VALUES for side in entries]
        for place in range(4):
            cells.add_numbers([entry[place] for entry in values])


class _Columns:
    """Columns in the order of a header; numbers become text together, on all cores."""

    def __init__(self, header: Sequence[str]) -> None:
        self._header = iter(header)
        self._given: list[pl.Series] = []
        self._cells: list[pl.Expr] = []

    def add(self, cells: pl.Expr) -> None:
        self._cells.append(cells.alias(next(self._header)))

    def add_texts(self, cells: Sequence[str]) -> None:
        name = next(self._header)
        self._given.append(pl.Series(name, cells, dtype=pl.String))
        self._cells.append(pl.col(name))

    def add_numbers(self, cells: Sequence[Any], *, as_percent: bool = False) -> None:
        """Add numbers, among which words may stand."""
        name = next(self._header)
        text = _percent_text(pl.col(name)) if as_percent else _number_text(pl.col(name))
        if set(map(type, cells)) != {float}:
            words = [None if type(cell) is float else str(cell) for cell in cells]
            cells = [cell if type(cell) is float else None for cell in cells]
            self._given.append(pl.Series(f"{name}#", words, dtype=pl.String))
            text = pl.coalesce(pl.col(f"{name}#"), text)
        self._given.append(pl.Series(name, cells, dtype=pl.Float64))
        self._cells.append(text.alias(name))

    def frame(self) -> pl.DataFrame:
        return pl.DataFrame(self._given).select(self._cells)


def _number_text(number: pl.Expr) -> pl.Expr:
    """Return numbers in full, whole ones without a fraction; nan in small letters, as Python has it."""
    return pl.when(number.is_nan()).then(pl.lit("nan")).otherwise(number.cast(pl.String).str.strip_suffix(".0"))


def _percent_text(number: pl.Expr) -> pl.Expr:
    """Return relative errors in percent; nan and infinities have no sign."""
    percent = (number * 100).cast(pl.String) + "%"
    return pl.when(number.is_finite()).then(percent).otherwise(_number_text(number))


def _message(row: Row) -> str:
    if not row.messages and not row.reasons:
        return ""
    return "\n".join(filter(None, [" ".join(row.messages), *row.reasons]))


def _stack(row: Row, stack_of: StackOf) -> str:
    frames = stack_of(row.record) if row.is_first and row.candidate is not None else ()
    return str(list(frames)) if frames else ABSENT


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
