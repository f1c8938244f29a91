"""The two tables of a check in the other formats that results are written in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from torchparity import plugins
from torchparity.check.results.rows import DETAILS_HEADER, RESULT_HEADER, read_rows, tells_places, without_place
from torchparity.records import Table
from torchparity.report.formats import TableFormat

_WORDS = frozenset({"API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "Status", "Message", "standard"})
_COLOURS = {"error": "red", "warning": "yellow"}


def write_tables(result: Path, details: Path, formats: Iterable[str]) -> list[Path]:
    """Write both csv files again in other formats, beside them; return the files."""
    written: list[Path] = []
    for name in formats:
        plugin: TableFormat = plugins.load("report.formats", name)
        for path, header in ((result, RESULT_HEADER), (details, DETAILS_HEADER)):
            target = path.with_suffix(plugin.suffix)
            if target != path:
                written += plugin.write(_table(path, header), target).files
    return written


def _table(path: Path, header: Sequence[str]) -> Table:
    rows = read_rows(path, header)
    shown = header if tells_places(path) else without_place(header)
    frame = pl.DataFrame(
        [[row[place] or None for row in rows] for place in range(len(shown))], schema=dict.fromkeys(shown, pl.String)
    )
    colours = [_colour(row) for row in rows]
    numeric = frozenset(shown) - _WORDS if header is DETAILS_HEADER else frozenset()
    return Table(frame=frame, title=path.stem, numeric=numeric, colours=colours if any(colours) else [])


def _colour(row: Sequence[str]) -> str | None:
    return next((colour for word, colour in _COLOURS.items() if word in row), None)
