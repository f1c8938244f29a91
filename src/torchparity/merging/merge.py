"""Merges the results in a folder into one workbook for each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import polars as pl

from torchparity.errors import ConfigError, DamagedFileError
from torchparity.merging.config import MergeConfig
from torchparity.merging.modes import NAME, REQUIRES_GRAD, Mode, metrics_asked, mode_of
from torchparity.merging.reading import read_table
from torchparity.merging.result_files import ResultFile, find_results
from torchparity.merging.sheets import RankRows, merged_sheets, rows_of_rank
from torchparity.report.workbook import MOST_ROWS, Sheet, write_book
from torchparity.text import counted

Show = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """A workbook that was written, what it holds, and sentences on what a reader of it should know."""

    path: Path
    ranks: list[str]
    metrics: list[str]
    rows: int
    notes: list[str]

    @property
    def sentence(self) -> str:
        """The content in a few words."""
        return (
            f"{counted(len(self.ranks), 'rank')}, {counted(len(self.metrics), 'metric')}, {counted(self.rows, 'row')}"
        )


def merge_results(
    folder: Path,
    output: Path,
    config: MergeConfig,
    *,
    worst: bool = False,
    show: Show = lambda what, done, of: None,
) -> list[Merged]:
    """Merge the results in a folder; `worst` adds the worst rank of each row. Return a workbook for each step."""
    timestamp = time.strftime("%Y%m%d%H%M%S")
    reader = _ResultReader(config, show)
    steps = {step: reader.read(files) for step, files in find_results(folder).items()}
    merged = []
    for step, ranks in steps.items():
        title = "multi_ranks_compare_merge" + ("" if step is None else f"_step{step}")
        path = output / f"{title}_{timestamp}.xlsx"
        rows = _write(path, ranks, reader.metrics, worst=worst)
        notes = list(_about_apis(config.apis, ranks))
        columns = [rank.column for rank in ranks]
        merged.append(Merged(path=path, ranks=columns, metrics=[*reader.metrics], rows=rows, notes=notes))
    return merged


class _ResultReader:
    """Reads the rows of each rank that are asked for; `metrics` are those of the mode that all results have."""

    def __init__(self, config: MergeConfig, show: Show) -> None:
        self._config, self._show = config, show
        self._first: tuple[Mode, ResultFile] | None = None
        self.metrics: Sequence[str] = ()

    def read(self, files: Sequence[ResultFile]) -> list[RankRows]:
        ranks = []
        for number, file in enumerate(files):
            self._show(f"reading {file.column}", number, len(files))
            table = read_table(file.path)
            self.metrics = metrics_asked(self._config.metrics, self._mode(file, table))
            ranks.append(rows_of_rank(file.column, table, self._config.apis, self.metrics))
        return ranks

    def _mode(self, file: ResultFile, table: pl.DataFrame) -> Mode:
        """Return the mode of a result; raise where it is none, or of another mode than the first."""
        mode = mode_of(table.columns)
        if mode is None:
            raise DamagedFileError(file.path, "it is no result of a comparison: it lacks NPU Name, NPU max or a metric")
        if mode == "checksums":
            raise ConfigError(
                f"{file.path} compares checksums (md5), which have no metrics to merge; "
                "record with task statistics or tensor and compare again."
            )
        self._first = self._first or (mode, file)
        if self._first[0] != mode:
            raise ConfigError(
                f"{self._first[1].path.name} compares {self._first[0]} and {file.path.name} compares {mode}; "
                "results are merged of one kind: keep each in a folder of its own."
            )
        return mode


def _write(path: Path, ranks: Sequence[RankRows], metrics: Sequence[str], *, worst: bool) -> int:
    """Write the workbook; return how many rows its sheets have."""
    columns = frozenset(rank.column for rank in ranks)
    sheets: list[Sheet] = []
    rows = 0
    for metric, frame in merged_sheets(ranks, metrics, worst=worst):
        rows = frame.height
        sheets += _sheets(metric, frame, columns)
    write_book(path, path.stem, sheets)
    return rows


def _sheets(metric: str, frame: pl.DataFrame, ranks: frozenset[str]) -> Iterator[Sheet]:
    booleans = ranks if metric == REQUIRES_GRAD else frozenset()
    for number, part in enumerate(list(frame.iter_slices(MOST_ROWS)) or [frame], 1):
        name = metric if number == 1 else f"{metric} ({number})"
        yield Sheet(name=name, frame=part, numeric=frozenset(frame.columns) - {NAME}, booleans=booleans)


def _about_apis(apis: Sequence[str], ranks: Sequence[RankRows]) -> Iterator[str]:
    """Yield a sentence for each API that some ranks do not have, or none."""
    for api in apis:
        having = [rank.column for rank in ranks if api not in rank.missing]
        if not having:
            yield f"no result has rows of {api!r}.{ranks[0].missing[api]}"
        elif len(having) < len(ranks):
            yield f"{api} is on {_listed(having)} alone; the other ranks have blank cells."


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
