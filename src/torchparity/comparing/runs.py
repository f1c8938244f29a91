"""Compares two runs: every step and rank that both have."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from torchparity.comparing.engines import open_engine
from torchparity.comparing.judging.evidence.coverage import (
    Coverage,
    has_compared,
    has_foreach,
    is_held_once,
    optimizer_calls_alone,
)
from torchparity.comparing.judging.judge import judge
from torchparity.comparing.judging.verdict import Finding, Verdict
from torchparity.comparing.judging.wording.sentences import finding_sentence
from torchparity.comparing.measuring.item_comparison import ItemComparison, Reason, counted_by_measure
from torchparity.comparing.options import Options, refuse_unknown_patterns
from torchparity.comparing.part import PartComparison
from torchparity.comparing.part_pairs import pair_parts, run_of
from torchparity.comparing.rank_summary import RankSummary, rank_summaries
from torchparity.comparing.result_names import FileNames
from torchparity.storage import RunPart, open_run

if TYPE_CHECKING:
    import polars as pl

Show = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


class Comparison:
    """The result of comparing two runs.

    `parts` has one comparison for each step and rank that both runs have, `parts_alone` counts those that only one
    of them has; `notes` are sentences about what could not be compared.
    """

    def __init__(
        self,
        candidate: Path,
        baseline: Path,
        parts: Sequence[PartComparison],
        notes: Sequence[str],
        *,
        options: Options,
        parts_alone: int = 0,
    ) -> None:
        self.candidate, self.baseline = candidate, baseline
        self.parts, self.notes = list(parts), list(notes)
        self.parts_alone, self._options = parts_alone, options
        self.timestamp = time.strftime("%Y%m%d%H%M%S")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    @property
    def frame(self) -> pl.DataFrame:
        """The table of the first part; `parts` has the others."""
        return self.parts[0].frame

    @property
    def numbers(self) -> pl.DataFrame:
        """The same table with numbers as numbers, to calculate with; where a word stands there is nothing."""
        import polars as pl

        from torchparity.comparing.msprobe.columns import NUMERIC

        frame = self.frame
        texts = [name for name in frame.columns if name in NUMERIC and frame[name].dtype == pl.String]
        return frame.with_columns(pl.col(texts).cast(pl.Float64, strict=False)) if texts else frame

    @property
    def comparisons(self) -> Iterator[ItemComparison]:
        """Every item of every part, with what comparing it gave."""
        return (comparison for part in self.parts for comparison in part.comparisons)

    @cached_property
    def verdict(self) -> Verdict:
        """The answer: the kind of difference, where it is, and the sentence that says so."""
        return judge(self.parts, self._coverage, self._options.limits)

    @property
    def first_divergence(self) -> Finding | None:
        """The finding where the runs part."""
        return self.verdict.first

    @property
    def has_differences(self) -> bool:
        """True where any row has a verdict against it, or a tensor that could not be compared, or nothing could be."""
        from torchparity.comparing.msprobe.rows import differs  # a headline needs no rows

        is_any_off = any(
            differs(comparison, judgement.verdict)
            for part in self.parts
            for comparison, judgement in zip(part.comparisons, part.judgements, strict=True)
        )
        return self.parts_alone > 0 or is_any_off or self._held_once > 0 or not self.has_compared

    @cached_property
    def has_compared(self) -> bool:
        """True where there was anything to compare: a tensor, where there are any; equal arguments alone say little."""
        return has_compared(self.comparisons)

    @cached_property
    def _held_once(self) -> int:
        """The number of tensors that have nothing to compare in one run and something in the other."""
        return sum(map(is_held_once, self.comparisons))

    def headline(self) -> str:
        """Return one sentence: where the runs part, with module, line of code and numbers."""
        return self.verdict.sentence

    def advice(self) -> str:
        """Return what to do about the verdict."""
        return self.verdict.advice

    def other_findings(self) -> list[str]:
        """Return a sentence for each of the independent other places where the runs part."""
        modes = {(part.step, part.rank): part.mode for part in self.parts}
        sentences = []
        for finding in self.verdict.also:
            where = f"step {finding.step}, rank {finding.rank}: " if len(modes) > 1 else ""
            by_checksum = modes[finding.step, finding.rank] == "checksums"
            said = finding_sentence(finding, by_checksum=by_checksum).partition(": ")[2]  # without "First ..."
            sentences.append(f"{where}{said}")
        return sentences

    @cached_property
    def _coverage(self) -> Coverage:
        pairs = [pair for part in self.parts for pair in part.pairs]
        mine, other = optimizer_calls_alone(self.parts)
        read = (part.comparisons for part in self.parts if part.mode == "values")
        unreadable = [entry for entry in chain.from_iterable(read) if entry.reason is Reason.UNREADABLE]
        by_statistics = sum(entry.deviation is not None for entry in unreadable)
        return Coverage(
            has_compared=self.has_compared,
            paired=sum(pair.how != "unmatched" for pair in pairs),
            unpaired_records=sum(pair.how == "unmatched" and not pair.is_recompute for pair in pairs),
            unpaired_parts=self.parts_alone,
            unreadable_rows=len(unreadable) - by_statistics + self._held_once,
            rows_by_statistics=by_statistics,
            optimizer_alone=len(mine) + len(other),
            is_foreach_once=has_foreach(mine) != has_foreach(other),
        )

    def counts(self) -> Counter[str]:
        """Return how many records were paired how, over all parts."""
        return sum((part.counts() for part in self.parts), Counter())

    def rows_compared(self) -> Counter[str]:
        """Return how many items were compared by what: values, statistics, checksums, shapes, arguments."""
        return counted_by_measure(self.comparisons)

    @cached_property
    def rank_summaries(self) -> list[RankSummary]:
        """The number of rows that differ in each step and rank, and the first of them."""
        return rank_summaries(self.parts, self.first_divergence)

    def write(
        self,
        folder: str | Path,
        formats: Sequence[str] = ("csv",),
        *,
        advice: bool = True,
        names_ranks: bool = False,
    ) -> list[Path]:
        """Write a table for each part and format, a summary over several ranks, and msprobe's advisor files.

        `names_ranks` puts the rank into the names of the files of one rank too. Return what was written.
        """
        from torchparity.comparing.tables import write_summary, write_tables

        told = self.verdict if advice else None
        names = FileNames(self.parts, self.timestamp, names_ranks=names_ranks)
        files, notes = write_tables(self.parts, names, Path(folder), formats, advice=told)
        self.notes += notes
        if names.has_ranks:
            files += write_summary(self.rank_summaries, names, Path(folder), formats)
        return files

    def write_analysis(self, folder: str | Path) -> list[Path]:
        """Write msprobe's `-da` files: each rank's records, and the first node that differs across ranks."""
        from torchparity.comparing.tables import write_analysis

        return write_analysis(self.parts, self.verdict, self.timestamp, Path(folder))

    def to_csv(self, path: str | Path) -> list[Path]:
        """Write the tables as csv into a folder, or the only one as a file if `path` ends in .csv."""
        return self._write_as("csv", path)

    def to_xlsx(self, path: str | Path) -> list[Path]:
        """Write the tables as workbooks into a folder, or the only one as a file if `path` ends in .xlsx."""
        return self._write_as("xlsx", path)

    def to_json(self, path: str | Path) -> list[Path]:
        """Write the tables as JSON into a folder, or the only one as a file if `path` ends in .json."""
        return self._write_as("json", path)

    def to_parquet(self, path: str | Path) -> list[Path]:
        """Write the tables as parquet into a folder, or the only one as a file if `path` ends in .parquet."""
        return self._write_as("parquet", path)

    def _write_as(self, name: str, path: str | Path) -> list[Path]:
        from torchparity.comparing.tables import write_as

        files, notes = write_as(self.parts, FileNames(self.parts, self.timestamp), name, Path(path))
        self.notes += notes
        return files


def compare_runs(
    candidate: str | Path,
    baseline: str | Path,
    options: Options,
    show: Show = lambda what, done, of: None,
) -> Comparison:
    """Compare every step and rank that both runs have; what only one has is a note."""
    if options.all_steps:
        candidate, baseline = (run_of(open_run(path).path) for path in (candidate, baseline))
    left, right = open_run(candidate), open_run(baseline)
    found = pair_parts(left, right, options.rank_map)
    pairs, notes = found.pairs, [*found.notes]
    if {part.info.tool == "msprobe" for pair in pairs[:1] for part in pair} == {True, False}:
        notes.append("one run alone is msprobe's, which has wrong gradients of some calls: trust forward records more.")
    records = ((name, mine.construct) for mine, _ in pairs for name in mine.records) if options.patterns else ()
    refuse_unknown_patterns(options.patterns, records)
    if options.stack_path and len(pairs) == 1:
        pairs[0][0].use_stacks(Path(options.stack_path))
    parts = _compared(pairs, options, show)
    notes += _about_parts(parts)
    for part in parts:
        notes += [f"candidate: {problem}" for problem in part.candidate.problems]
        notes += [f"baseline: {problem}" for problem in part.baseline.problems]
    return Comparison(left.path, right.path, parts, notes, options=options, parts_alone=found.alone)


def _about_parts(parts: Sequence[PartComparison]) -> Iterator[str]:
    """Yield the notes of all parts; one that every part has is said once."""
    common = [note for note in parts[0].notes if all(note in part.notes for part in parts)] if len(parts) > 1 else []
    for note in common:
        yield f"every step and rank: {note}"
    for part in parts:
        yield from (f"step {part.step}, rank {part.rank}: {note}" for note in part.notes if note not in common)


def _compared(pairs: Sequence[tuple[RunPart, RunPart]], options: Options, show: Show) -> list[PartComparison]:
    """Pair the records of all parts, then measure them: an engine that reaches further works on many at once."""
    parts = []
    with open_engine(options.engine, options.address) as engine:
        for mine, other in pairs:
            show(f"reading step {mine.step}, rank {mine.rank}", 0, 0)
            parts.append(PartComparison(mine, other, options, engine))
        for part in parts:
            what = f"comparing step {part.step}, rank {part.rank}{engine.where}"
            show(what, 0, 0)
            part.measure(partial(show, what))
    return parts
