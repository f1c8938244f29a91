"""Tells what a cell of a table is: a number, a word or nothing. One answer for every format."""

from __future__ import annotations

import polars as pl

from torchparity.errors import InternalError
from torchparity.records import Table

COLOURS = ("red", "yellow")
_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"  # as JSON and Excel both read it
_WORDS_OF_FLOATS = ["nan", "inf", "-inf"]


def plain_frame(table: Table) -> pl.DataFrame:
    """Return the frame with columns of text, numbers, booleans or nothing; raise `InternalError` if it has others."""
    frame: pl.DataFrame = table.frame
    if table.colours and len(table.colours) != frame.height:
        raise InternalError(f"the table has {frame.height} rows and {len(table.colours)} colours.")
    if unknown := set(table.colours) - {None, *COLOURS}:
        raise InternalError(f"rows can be {' or '.join(COLOURS)}, not {unknown.pop()!r}.")
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype in (pl.String, pl.Boolean, pl.Null, pl.Categorical, pl.Enum)):
            raise InternalError(f"column {name!r} holds {dtype}, which no table format can write.")
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


def coloured_frame(table: Table) -> pl.DataFrame:
    """Return the plain frame, with a last column `colour` where any row has one."""
    frame = plain_frame(table)
    if not any(table.colours):
        return frame
    return frame.with_columns(pl.Series("colour", table.colours, dtype=pl.String))


def as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a column as text: `True`, `False`, `nan`, `inf`, `-inf`, floats with all their digits."""
    column = pl.col(name)
    if dtype == pl.Boolean:
        return column.replace_strict({True: "True", False: "False"}, return_dtype=pl.String)
    if dtype.is_float():
        return pl.when(column.is_nan()).then(pl.lit("nan")).otherwise(column.cast(pl.String)).alias(name)
    return column.cast(pl.String)


def is_number(name: str, dtype: pl.DataType, *, numeric: bool) -> pl.Expr:
    """Return which cells of a column are finite numbers; `numeric` says that its text may be."""
    column = pl.col(name)
    if dtype == pl.String and numeric:
        # 1e999 is written like a number and is none that a reader can hold.
        return (column.str.contains(_NUMBER) & column.cast(pl.Float64, strict=False).is_finite()).fill_null(False)
    if dtype.is_numeric():
        return column.is_finite().fill_null(False)
    return pl.lit(False).alias(name)


def as_numbers(column: pl.Series) -> pl.Series:
    """Return a column of text as whole numbers or floats if every cell is one, else as it is."""
    if column.dtype != pl.String:
        return column
    floats = column.cast(pl.Float64, strict=False)
    if floats.null_count() > column.null_count():  # a word stands in it
        return column
    # Not everything that polars reads as a number is written like one: +1, 01, .5, infinity.
    are_numbers = column.str.contains(_NUMBER) & floats.is_finite()
    if not are_numbers.all() and not (are_numbers | column.is_in(_WORDS_OF_FLOATS)).all():
        return column
    if not (floats == floats.floor()).all():
        return floats
    whole = column.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == column.null_count() else floats
