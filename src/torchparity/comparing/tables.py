"""Writes the results of a comparison: tables in every format, msprobe's advisor file and its analysis.

The one file of comparing/ that reaches report/, which knows tables alone. See docs/decisions/0016.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchparity import plugins
from torchparity.comparing.judging.verdict import Verdict
from torchparity.comparing.msprobe.advisor import advisor_text
from torchparity.comparing.msprobe.columns import NUMERIC
from torchparity.comparing.msprobe.first_node import analysis_files
from torchparity.comparing.part import PartComparison
from torchparity.errors import ConfigError, RunWriteError
from torchparity.records import Table
from torchparity.report.formats import TableFormat
from torchparity.whole_file import whole_file


def write_tables(
    parts: Sequence[PartComparison], timestamp: str, folder: Path, formats: Sequence[str], *, advice: Verdict | None
) -> tuple[list[Path], list[str]]:
    """Write a table for each part and format into a folder, and the advisor's file of each part.

    `advice` is the verdict that the advisor's files tell; None leaves them out. Return the files, and sentences on
    what a reader of them should know.
    """
    _make_folder(folder)
    files: list[Path] = []
    notes: list[str] = []
    for part in parts:
        for name in formats:
            plugin = _format(name)
            title = _file_name("compare_result", part, parts, timestamp)
            # compare_result_rank0.json is the name that -da has for something else.
            is_taken = plugin.suffix == ".json" and "_rank" in title
            stem = _file_name("compare_table", part, parts, timestamp) if is_taken else title
            written = plugin.write(_table(part, title), folder / f"{stem}{plugin.suffix}")
            files += written.files
            notes += written.notes
        if advice is not None:
            text = advisor_text(part.rows, part.mode, advice, step=part.step, rank=part.rank)
            files.append(_write(folder / f"{_file_name('advisor', part, parts, timestamp)}.txt", text.encode()))
    return files, notes


def write_as(parts: Sequence[PartComparison], timestamp: str, name: str, path: Path) -> tuple[list[Path], list[str]]:
    """Write the tables into a folder, or the only one as a file if `path` ends as the format's files do."""
    plugin = _format(name)
    if path.suffix != plugin.suffix:
        return write_tables(parts, timestamp, path, [name], advice=None)
    if len(parts) > 1:
        raise ConfigError(f"{path} names one file, and there are {len(parts)} tables; name a folder.")
    written = plugin.write(_table(parts[0], path.stem), path)
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


def _table(part: PartComparison, title: str) -> Table:
    colours = part.colours if any(part.colours) else []
    return Table(frame=part.frame, title=title, numeric=NUMERIC, colours=colours)


def _file_name(what: str, part: PartComparison, parts: Sequence[PartComparison], timestamp: str) -> str:
    step = f"_step{part.step}" if len({entry.step for entry in parts}) > 1 else ""
    rank = f"_rank{part.rank}" if len({entry.rank for entry in parts}) > 1 else ""
    is_result = what == "compare_result" and bool(part.comparisons)
    has_points_only = is_result and all(entry.direction == "debug" for entry in part.comparisons)
    return f"{'debug_' if has_points_only else ''}{what}{step}{rank}_{timestamp}"


def _write(path: Path, content: bytes) -> Path:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
    return path
