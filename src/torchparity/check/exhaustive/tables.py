"""The rows of an exhaustive check as a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from torchparity import plugins
from torchparity.check.exhaustive.results import COLUMNS, ExhaustiveResult
from torchparity.records import Table
from torchparity.report.formats import TableFormat

_STEM = "accuracy_checking_exhaustive"


def write_exhaustive(found: Sequence[ExhaustiveResult], folder: Path, formats: Iterable[str]) -> list[Path]:
    """Write the rows in each of some formats; return the files."""
    import polars as pl  # which the terminal does without

    rows = [[*each.cells(), each.reason] for each in found]
    columns = [*COLUMNS, "Message"]
    cells = [
        [(row[place] if place != 3 or not row[-1] else "") or None for row in rows] for place in range(len(columns))
    ]
    table = Table(frame=pl.DataFrame(cells, schema=dict.fromkeys(columns, pl.String)), title=_STEM)
    written: list[Path] = []
    for name in formats:
        plugin: TableFormat = plugins.load("report.formats", name)
        written += plugin.write(table, folder / f"{_STEM}{plugin.suffix}").files
    return written
