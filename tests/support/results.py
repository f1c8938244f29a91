"""Results of comparing ranks, written by hand: tables of a few rows, in any format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from tests.support.golden_ranks import cells
from torchparity import plugins
from torchparity.records import Table

TIME = "20260131120000"
STATISTICS = (
    *("Max diff", "Min diff", "Mean diff", "L2norm diff"),
    *("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr", "Requires_grad Consistent"),
)
VALUES = (
    *("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr"),
    *("One Thousandth Err Ratio", "Five Thousandths Err Ratio", "Requires_grad Consistent"),
)


def write_result(
    path: Path,
    rows: Mapping[str, str | float],
    *,
    metrics: Sequence[str] = STATISTICS,
    largest: tuple[str, str] = ("7.0", "8"),
) -> Path:
    """Write a result of one value for each name, the same for all metrics; largest are the maxima of both sides."""
    table = {"NPU Name": [*rows], **{metric: [*map(str, rows.values())] for metric in metrics}}
    table |= {"Requires_grad Consistent": ["True"] * len(rows)}
    table |= {"NPU max": [largest[0]] * len(rows), "Bench max": [largest[1]] * len(rows)}
    frame = pl.DataFrame(table, schema=dict.fromkeys(table, pl.String))
    numeric = frozenset(metrics) | {"NPU max", "Bench max"}
    plugins.load("report.formats", path.suffix[1:]).write(Table(frame=frame, title="result", numeric=numeric), path)
    return path


def merged_cells(folder: Path) -> dict[str, list[list[object]]]:
    """Return the cells of the only merged workbook in a folder."""
    (book,) = folder.glob("multi_ranks_compare_merge_*.xlsx")
    return cells(book)
