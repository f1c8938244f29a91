"""Writes the results of a comparison: tables in every format, msprobe's advisor file and its analysis.

The one file of comparing/ that reaches report/, which knows tables alone. See docs/decisions/0016.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchparity import plugins
from torchparity.comparing.judging.verdict import Verdict
from torchparity.comparing.msprobe.advisor import advisor_text
from torchparity.comparing.msprobe.columns import NUMERIC
from torchparity.comparing.msprobe.first_node import analysis_files
from torchparity.comparing.part import PartComparison
from torchparity.comparing.rank_summary import COLUMNS, RankSummary
from torchparity.comparing.result_names import FileNames
from torchparity.errors import ConfigError, RunWriteError
from torchparity.records import Table
from torchparity.report.formats import TableFormat
from torchparity.whole_file import whole_file

if TYPE_CHECKING:
    import polars as pl


def write_tables(
    parts: Sequence[PartComparison], names: FileNames, folder: Path, formats: Sequence[str], *, advice: Verdict | None
) -> tuple[list[Path], list[str]]:
    """Write a table for each part and format into a folder, and the advisor's file of each part.

    `advice` is the verdict that the advisor's files tell; None leaves them out. Return the files, and sentences on
    what a reader of them should know.
    """
    _make_folder(folder)
    files: list[Path] = []
    notes: list[str] = []
    for part in parts:
        frame = part.make_frame() if formats else None
        for name in formats:
            plugin = _format(name)
            file = folder / names.of_table(part, plugin.suffix)
            written = plugin.write(_table(part, frame, file.stem), file)
            files += written.files
            notes += written.notes
        if advice is not None:
            text = advisor_text(part.rows, part.mode, advice, step=part.step, rank=part.rank)
            files.append(_write(folder / f"{names.of_part('advisor', part)}.txt", text.encode()))
    return files, notes


def write_summary(
    summaries: Sequence[RankSummary], names: FileNames, folder: Path, formats: Sequence[str]
) -> list[Path]:
    """Write the summary over ranks in each format."""
    import polars as pl

    title = names.of_comparison("compare_summary")
    rows = [summary.cells for summary in summaries]
    frame = pl.DataFrame(rows, schema=COLUMNS, orient="row", infer_schema_length=None)
    files: list[Path] = []
    for name in formats:
        plugin = _format(name)
        files += plugin.write(Table(frame=frame, title=title), folder / f"{title}{plugin.suffix}").files
    return files


def write_as(parts: Sequence[PartComparison], names: FileNames, name: str, path: Path) -> tuple[list[Path], list[str]]:
    """Write the tables into a folder, or the only one as a file if `path` ends as the format's files do."""
    plugin = _format(name)
    if path.suffix != plugin.suffix:
        return write_tables(parts, names, path, [name], advice=None)
    if len(parts) > 1:
        raise ConfigError(f"{path} names one file, and there are {len(parts)} tables; name a folder.")
    written = plugin.write(_table(parts[0], parts[0].frame, path.stem), path)
    return written.files, written.notes


def write_analysis(parts: Sequence[PartComparison], verdict: Verdict, timestamp: str, folder: Path) -> list[Path]:
    """Write msprobe's `-da` files: each rank's records, and the first node that differs across ranks."""
    return [
        _write(folder / name, msgspec.json.format(msgspec.json.encode(content), indent=1))
        for name, content in analysis_files(parts, verdict, timestamp)
    ]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunWriteError(folder, (error.strerror or str(error)).lower()) from None


def _format(name: str) -> TableFormat:
    plugin: TableFormat = plugins.load("report.formats", name)
    return plugin


def _table(part: PartComparison, frame: pl.DataFrame | None, title: str) -> Table:
    colours = part.colours if any(part.colours) else []
    return Table(frame=frame, title=title, numeric=NUMERIC, colours=colours)


def _write(path: Path, content: bytes) -> Path:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
    return path
