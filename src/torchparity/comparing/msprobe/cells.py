"""Turns rows into the cells of msprobe's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import polars as pl

from torchparity.comparing.measuring.checksums import checksum_of
from torchparity.comparing.measuring.item_comparison import ItemComparison, Outcome, Reason, StatisticsDifference
from torchparity.comparing.measuring.mode import Mode
from torchparity.comparing.msprobe.columns import ABSENT, UNMATCHED, UNSUPPORTED, columns_of
from torchparity.comparing.msprobe.metrics import six_metrics
from torchparity.comparing.msprobe.rows import Judgement
from torchparity.comparing.pairing.items import NO_VALUES, ItemPair, Side
from torchparity.records import GroupLeaf, TensorLeaf

StackOf = Callable[[str], Sequence[str]]
_ABSENT_VALUES = (ABSENT,) * 4
_NOTHING_DESCRIBED = (ABSENT,) * 3
_NO_DIFFERENCE = StatisticsDifference(NO_VALUES, NO_VALUES)


def table_frame(
    comparisons: Sequence[ItemComparison], judged: Sequence[Judgement], mode: Mode, stack_of: StackOf | None
) -> pl.DataFrame:
    """Return the table; every cell is text as msprobe writes it, numbers in full."""
    cells = _Columns(columns_of(mode, stacks=stack_of is not None))
    pairs = [entry.pair for entry in comparisons]
    sides = [[pair.candidate for pair in pairs], [pair.baseline for pair in pairs]]
    for entries in sides:
        cells.add_texts([side.name if side else ABSENT for side in entries])
    described = [list(map(_described, entries)) for entries in sides]
    for place in range(3):
        for texts in described:
            cells.add_texts(list(map(itemgetter(place), texts)))
    if mode == "checksums":
        for entries in sides:
            cells.add_texts([checksum_of(side) or ABSENT for side in entries])
    else:
        _add_numbers(cells, comparisons, sides, mode)
    agree = pl.col("NPU Requires_grad") == pl.col("Bench Requires_grad")
    cells.add(pl.when(agree).then(pl.lit("True")).otherwise(pl.lit("False")))
    cells.add_texts([entry.verdict for entry in judged])
    if mode != "checksums":
        cells.add_texts([_message(entry) for entry in judged])
    if stack_of is not None:
        cells.add_texts([_stack(pair, stack_of) for pair in pairs])
    if mode == "values":
        files = zip(*([_file(side) for side in entries] for entries in sides), strict=True)
        cells.add_texts([str(list(pair)) for pair in files])
    return cells.frame()


def _add_numbers(
    cells: _Columns, comparisons: Sequence[ItemComparison], sides: Sequence[Sequence[Side | None]], mode: Mode
) -> None:
    if mode == "values":
        _add_metrics(cells, comparisons)
    else:
        _add_differences(cells, [entry.outcome for entry in comparisons])
    for entries in sides:
        values = [side.values() if side else _ABSENT_VALUES for side in entries]
        for place in range(4):
            cells.add_numbers(list(map(itemgetter(place), values)))


def _add_metrics(cells: _Columns, comparisons: Sequence[ItemComparison]) -> None:
    metrics = [six_metrics(entry) for entry in comparisons]
    words = [_word_for_metrics(entry) for entry in comparisons]
    for place in range(6):
        numbers = (six[place] for six in metrics)
        cells.add_numbers([word if cell is None else cell for cell, word in zip(numbers, words, strict=True)])


def _word_for_metrics(comparison: ItemComparison) -> str:
    """Return what stands where a metric is no number."""
    if comparison.reason is Reason.OTHER_SHAPE:
        return UNMATCHED
    return ABSENT if comparison.mismatched else UNSUPPORTED


def _add_differences(cells: _Columns, outcomes: Sequence[Outcome]) -> None:
    differences = [entry if isinstance(entry, StatisticsDifference) else _NO_DIFFERENCE for entry in outcomes]
    absolute, relative = [entry.absolute for entry in differences], [entry.relative for entry in differences]
    for place in range(4):
        cells.add_numbers(list(map(itemgetter(place), absolute)), nothing=ABSENT)
    for place in range(4):
        cells.add_numbers(list(map(itemgetter(place), relative)), nothing=ABSENT, as_percent=True)


class _Columns:
    """Columns in the order of a header; numbers become text together, on all cores."""

    def __init__(self, header: Sequence[str]) -> None:
        self._header = iter(header)
        self._series: list[pl.Series] = []
        self._cells: list[pl.Expr] = []

    def add(self, cells: pl.Expr) -> None:
        self._cells.append(cells.alias(next(self._header)))

    def add_texts(self, cells: Sequence[str]) -> None:
        name = next(self._header)
        self._series.append(pl.Series(name, cells, dtype=pl.String))
        self._cells.append(pl.col(name))

    def add_numbers(self, cells: Sequence[Any], *, nothing: str = "None", as_percent: bool = False) -> None:
        """Add numbers, among which words may stand; `nothing` is the word for None."""
        name = next(self._header)
        text = _percent_text(pl.col(name)) if as_percent else _number_text(pl.col(name))
        if set(map(type, cells)) != {float}:
            words = [None if type(cell) is float else nothing if cell is None else str(cell) for cell in cells]
            cells = [cell if type(cell) is float else None for cell in cells]
            self._series.append(pl.Series(f"{name}#", words, dtype=pl.String))
            text = pl.coalesce(pl.col(f"{name}#"), text)
        self._series.append(pl.Series(name, cells, dtype=pl.Float64))
        self._cells.append(text.alias(name))

    def frame(self) -> pl.DataFrame:
        return pl.DataFrame(self._series).select(self._cells)


def _number_text(number: pl.Expr) -> pl.Expr:
    """Return numbers in full, whole ones without a fraction; nan in small letters, as Python has it."""
    return pl.when(number.is_nan()).then(pl.lit("nan")).otherwise(number.cast(pl.String).str.strip_suffix(".0"))


def _percent_text(number: pl.Expr) -> pl.Expr:
    """Return relative errors in percent; nan and inf are written without a percent sign."""
    percent = (number * 100).cast(pl.String) + "%"
    return pl.when(number.is_finite()).then(percent).otherwise(_number_text(number))


def _message(judgement: Judgement) -> str:
    if not judgement.messages and not judgement.reasons:
        return ""
    return "\n".join(filter(None, [" ".join(judgement.messages), *judgement.reasons]))


def _stack(pair: ItemPair, stack_of: StackOf) -> str:
    frames = stack_of(pair.record) if pair.is_first and pair.candidate is not None else ()
    return str(list(frames)) if frames else ABSENT


def _described(side: Side | None) -> tuple[str, str, str]:
    """Return dtype, shape and requires_grad of an item."""
    if side is None:
        return _NOTHING_DESCRIBED
    leaf = side.leaf
    if isinstance(leaf, TensorLeaf):
        return _tensor_described(leaf.dtype, leaf.shape, leaf.requires_grad)
    if isinstance(leaf, GroupLeaf):
        return leaf.type, "[]", ABSENT
    return ("None", "None", ABSENT) if leaf is None else (f"<class '{leaf.type}'>", "[]", ABSENT)


@lru_cache(maxsize=4096)
def _tensor_described(dtype: str, shape: tuple[int, ...], requires_grad: bool | None) -> tuple[str, str, str]:
    return dtype, str(list(shape)), ABSENT if requires_grad is None else str(requires_grad)


def _file(side: Side | None) -> str:
    if side is None:
        return ABSENT
    name = side.leaf.data_name if isinstance(side.leaf, TensorLeaf) else None
    return name or "-1"
