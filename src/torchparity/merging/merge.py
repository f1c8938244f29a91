"""Merges the results in a folder into one workbook for each step."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import polars as pl

from torchparity.errors import ConfigError, DamagedFileError, nearest
from torchparity.merging.config import MergeConfig
from torchparity.merging.modes import NAME, REQUIRES_GRAD, Mode, metrics_asked, mode_of
from torchparity.merging.reading import read_table
from torchparity.merging.result_files import ResultFile, find_results
from torchparity.merging.sheets import RankRows, merged_sheets, rows_of_rank
from torchparity.report.workbook import MOST_ROWS, Sheet, write_book
from torchparity.text import counted


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


def merge_results(folder: Path, output: Path, config: MergeConfig, *, worst: bool = False) -> list[Merged]:
    """Merge the results in a folder; `worst` adds the worst rank of each row. Return a workbook for each step."""
    timestamp = time.strftime("%Y%m%d%H%M%S")
    results = find_results(folder)
    modes: dict[Mode, ResultFile] = {}
    merged = []
    for step, files in results.items():
        title = "multi_ranks_compare_merge" + ("" if step is None else f"_step{step}")
        merged.append(_merge_step(files, output / f"{title}_{timestamp}.xlsx", config, modes, worst=worst))
    return merged


def _merge_step(
    files: Sequence[ResultFile], path: Path, config: MergeConfig, modes: dict[Mode, ResultFile], *, worst: bool
) -> Merged:
    ranks: list[RankRows] = []
    metrics: Sequence[str] = ()
    hints: dict[str, str] = {}
    for file in files:
        table = read_table(file.path)
        metrics = metrics_asked(config.metrics, _mode(file, table, modes))
        ranks.append(rows_of_rank(file.column, table, config.apis, metrics))
        missing = [api for api in config.apis if api not in ranks[-1].found and api not in hints]
        hints |= {api: _nearest_beginning(api, table[NAME]) for api in missing}
    columns = frozenset(rank.column for rank in ranks)
    sheets: list[Sheet] = []
    rows = 0
    for metric, frame in merged_sheets(ranks, metrics, worst=worst):
        rows = frame.height
        sheets += _sheets(metric, frame, columns)
    write_book(path, path.stem, sheets)
    notes = list(_about_apis(config.apis, ranks, hints))
    return Merged(path=path, ranks=[rank.column for rank in ranks], metrics=[*metrics], rows=rows, notes=notes)


def _mode(file: ResultFile, table: pl.DataFrame, modes: dict[Mode, ResultFile]) -> Mode:
    """Return the mode of a result; raise where it is none, or of another mode than those before."""
    mode = mode_of(table.columns)
    if mode is None:
        raise DamagedFileError(file.path, "it is no result of a comparison: columns such as NPU Name and NPU max lack")
    if mode == "checksums":
        raise ConfigError(
            f"{file.path} compares checksums (md5), which have no metrics to merge; "
            "record with task statistics or tensor and compare again."
        )
    for other, first in modes.items():
        if other != mode:
            raise ConfigError(
                f"{first.path.name} compares {other} and {file.path.name} compares {mode}; "
                "results are merged of one kind: keep each in a folder of its own."
            )
    modes.setdefault(mode, file)
    return mode


def _sheets(metric: str, frame: pl.DataFrame, ranks: frozenset[str]) -> Iterator[Sheet]:
    booleans = ranks if metric == REQUIRES_GRAD else frozenset()
    for number, part in enumerate(list(frame.iter_slices(MOST_ROWS)) or [frame], 1):
        name = metric if number == 1 else f"{metric} ({number})"
        yield Sheet(name=name, frame=part, numeric=frozenset(frame.columns) - {NAME}, booleans=booleans)


def _about_apis(apis: Sequence[str], ranks: Sequence[RankRows], hints: dict[str, str]) -> Iterator[str]:
    """Yield a sentence for each API that some ranks do not have, or none."""
    for api in apis:
        having = [rank.column for rank in ranks if api in rank.found]
        if not having:
            yield f"no result has rows of {api!r}.{hints[api]}"
        elif len(having) < len(ranks):
            yield f"{api} is on {_listed(having)} alone; the other ranks have blank cells."


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _nearest_beginning(api: str, names: pl.Series) -> str:
    """Return the nearest beginning of names, of as many parts as the API has."""
    parts = api.count(".") + 1
    return nearest(api, dict.fromkeys(".".join(name.split(".")[:parts]) for name in names.drop_nulls()))
