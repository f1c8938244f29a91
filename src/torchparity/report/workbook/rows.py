"""Formats rows of a table as the XML of a spreadsheet, thousands of rows at once with polars.

A writer that is called for each cell needs minutes for a million rows; this needs seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from torchparity.report.cells import as_text, is_number

MOST_CHARACTERS = 32_767  # in a cell of Excel, counted as UTF-16
_FORBIDDEN = [chr(code) for code in range(32) if chr(code) not in "\t\n"] + ["\ufffe", "\uffff"]
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {char: f"_x{ord(char):04X}_" for char in _FORBIDDEN}
_SPECIAL = r"[&<>\x00-\x08\x0b-\x1f\x{fffe}\x{ffff}]|_x[0-9A-Fa-f]{4}"
_EDGE_SPACE = r"^\s|\s$"
_ROW, _STYLE = "row", "style"


class RowMaker:
    """Makes `<row>` elements; `styles` are the workbook's numbers of the colours' cell formats."""

    def __init__(
        self,
        schema: pl.Schema,
        numeric: frozenset[str],
        styles: dict[str, int],
        booleans: frozenset[str] = frozenset(),
    ) -> None:
        # Columns go by their place from here on, so that none is taken for `row` or `style`.
        self._dtypes = dict(enumerate(schema.values()))
        self._numeric = {place for place, name in enumerate(schema) if name in numeric}
        self._booleans = {place for place, name in enumerate(schema) if name in booleans}
        self._styles = {colour: f'" s="{number}"' for colour, number in styles.items()}
        self.cut: list[tuple[int, int]] = []  # place of the column and row of each cell that was too long

    def xml(self, part: pl.DataFrame, colours: Sequence[str | None], first_row: int) -> bytes:
        """Return the rows of `part`, the first of them in row `first_row` of the sheet."""
        part = part.rename({name: str(place) for place, name in enumerate(part.columns)})
        texts = part.select(as_text(str(place), dtype) for place, dtype in self._dtypes.items())
        texts = self._shorten(texts, first_row)
        numbers = part.select(
            is_number(str(place), dtype, numeric=True).alias(f"{place}#")
            for place, dtype in self._dtypes.items()
            if dtype.is_numeric() or place in self._numeric
        )
        has_colours = any(colours)
        rows = pl.int_range(first_row, first_row + part.height, eager=True).cast(pl.String).alias(_ROW)
        whole = texts.with_columns(rows, *numbers)
        if has_colours:
            whole = whole.with_columns(pl.Series(_STYLE, [self._styles.get(colour or "", '"') for colour in colours]))
        cells = [
            _cell(str(place), _flags(texts[str(place)]), f"{place}#" in numbers.columns, has_colours)
            for place in self._dtypes
        ]
        cells = [_with_booleans(cell) if place in self._booleans else cell for place, cell in enumerate(cells)]
        row = pl.concat_str(pl.lit('<row r="'), _ROW, pl.lit('">'), *cells, pl.lit("</row>"), ignore_nulls=True)
        joined: str = whole.select(row.str.join("")).item()
        return joined.encode()

    def _shorten(self, texts: pl.DataFrame, first_row: int) -> pl.DataFrame:
        """Cut the cells that are too long for Excel and remember them."""
        for column in texts.select(pl.all().str.len_bytes().max() > MOST_CHARACTERS):
            if not column.item():
                continue
            cells = texts[column.name].to_list()
            for index, cell in enumerate(cells):
                if cell is not None and (short := _shortened(cell)) != cell:
                    cells[index] = short
                    self.cut.append((int(column.name), first_row + index))
            texts = texts.with_columns(pl.Series(column.name, cells, dtype=pl.String))
        return texts


def column_name(place: int) -> str:
    """Return the name of a column in a sheet: A, B, … Z, AA."""
    name = ""
    place += 1
    while place:
        place, digit = divmod(place - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def _shortened(text: str) -> str:
    units = text.encode("utf-16-le")
    if len(units) <= 2 * MOST_CHARACTERS:
        return text
    return units[: 2 * (MOST_CHARACTERS - 1)].decode("utf-16-le", "ignore") + "…"


def _flags(text: pl.Series) -> tuple[bool, bool]:
    """Return whether any cell needs escapes, and whether any begins or ends with a blank."""
    return bool(text.str.contains(_SPECIAL).any()), bool(text.str.contains(_EDGE_SPACE).any())


def _cell(place: str, flags: tuple[bool, bool], has_numbers: bool, has_colours: bool) -> pl.Expr:
    """Return the `<c>` elements of a column; null where there is nothing to say."""
    special, spaced = flags
    text = pl.col(place)
    if special:
        # Excel reads _x0041_ as A, so text that looks like that gets its underscore escaped.
        text = text.str.replace_all(r"_(x[0-9A-Fa-f]{4})", "_x005F_$1")
        text = text.str.replace_many(list(_ESCAPES), list(_ESCAPES.values()))
    text = pl.when(text != "").then(text)
    preserve = ' xml:space="preserve"' if spaced else ""
    before, after = pl.lit(f' t="inlineStr"><is><t{preserve}>'), pl.lit("</t></is></c>")
    if has_numbers:
        is_number = pl.col(f"{place}#")
        before = pl.when(is_number).then(pl.lit("><v>")).otherwise(before)
        after = pl.when(is_number).then(pl.lit("</v></c>")).otherwise(after)
    start = [pl.lit(f'<c r="{column_name(int(place))}'), pl.col(_ROW), pl.col(_STYLE) if has_colours else pl.lit('"')]
    cell = pl.concat_str(*start, before, text, after)
    if not has_colours:
        return cell
    blank = pl.when(pl.col(_STYLE) != '"').then(pl.concat_str(*start, pl.lit("/>")))
    return pl.coalesce(cell, blank)


def _with_booleans(cell: pl.Expr) -> pl.Expr:
    """Return `<c>` elements in which the words True and False are Excel's own."""
    for word, number in (("True", 1), ("False", 0)):
        cell = cell.str.replace(rf' t="inlineStr"><is><t[^>]*>{word}</t></is></c>', f' t="b"><v>{number}</v></c>')
    return cell
