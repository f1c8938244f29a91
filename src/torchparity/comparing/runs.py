"""Comparing two runs: every step and rank that both have."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchparity import plugins
from torchparity.comparing.judging.deviation import deviation
from torchparity.comparing.judging.divergence import Divergence
from torchparity.comparing.judging.headline import advisor_text, agreement, headline
from torchparity.comparing.msprobe.columns import NUMERIC
from torchparity.comparing.msprobe.verdicts import differs
from torchparity.comparing.pairing.rows import Row
from torchparity.comparing.part import Options, PartComparison
from torchparity.errors import ConfigError, RunNotFoundError, RunWriteError
from torchparity.records import Leaf, Table, TensorLeaf
from torchparity.storage import RunPart, RunReader, open_run

if TYPE_CHECKING:
    import polars as pl

Show = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


class Comparison:
    """What comparing two runs gave.

    `parts` has one comparison for each step and rank that both runs have; `notes` are
    sentences about what could not be compared.
    """

    def __init__(self, candidate: Path, baseline: Path, parts: Sequence[PartComparison], notes: Sequence[str]) -> None:
        self.candidate, self.baseline = candidate, baseline
        self.parts, self.notes = list(parts), list(notes)
        self._found = _traced(self.parts)
        self.parts_alone = 0  # steps and ranks that only one of the runs has
        self.timestamp = time.strftime("%Y%m%d%H%M%S")

    @property
    def frame(self) -> pl.DataFrame:
        """The table of the first part; `parts` has the others."""
        return self.parts[0].frame

    @property
    def numbers(self) -> pl.DataFrame:
        """The same table with numbers as numbers, to calculate with; where a word stands there is nothing."""
        import polars as pl

        frame = self.frame
        texts = [name for name in frame.columns if name in NUMERIC and frame[name].dtype == pl.String]
        return frame.with_columns(pl.col(texts).cast(pl.Float64, strict=False)) if texts else frame

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    @property
    def first_divergence(self) -> Divergence | None:
        """Where the runs part, in the earliest step."""
        return next((found for found in self._found if found is not None), None)

    @property
    def has_differences(self) -> bool:
        """Whether any row has a verdict against it, or a tensor that could not be compared, or nothing could be."""
        is_any_off = any(differs(row) for part in self.parts for row in part.rows)
        return self.parts_alone > 0 or is_any_off or self._bare > 0 or not self.has_compared

    @cached_property
    def _bare(self) -> int:
        """How many tensors have nothing to compare in one run and something in the other."""
        return sum(_is_bare(row) for part in self.parts for row in part.rows)

    @property
    def has_compared(self) -> bool:
        """Whether there was anything to compare: a tensor, where there are any; equal arguments alone say little."""
        tensors = ((row, part.mode) for part in self.parts for row in part.rows if _has_tensors(row))
        first = next(tensors, None)
        if first is not None:
            return any(deviation(row, mode) is not None for row, mode in chain([first], tensors))
        return any(deviation(row, part.mode) is not None for part in self.parts for row in part.rows)

    def headline(self) -> str:
        """Return one sentence: where the runs part, with module, line of code and numbers."""
        for index, (part, found) in enumerate(zip(self.parts, self._found, strict=True)):
            if found is not None:
                is_later = any(before.rank == part.rank for before in self.parts[:index])
                parent = part.candidate.construct.get(found.record)
                frames = [frame for frame in part.lines_of(found.record) if "site-packages" not in frame]
                where = f"step {part.step}, rank {part.rank}: " if len(self.parts) > 1 else ""
                line = _place(frames[0]) if frames else None
                return where + headline(found, parent, line, part.mode, is_later=is_later)
        pairs = [pair for part in self.parts for pair in part.pairs]
        return agreement(
            has_compared=self.has_compared,
            paired=sum(pair.how != "unmatched" for pair in pairs),
            alone=sum(pair.how == "unmatched" and not pair.is_recompute for pair in pairs),
            parts=self.parts_alone,
            lost=sum(row.is_lost for part in self.parts for row in part.rows) + self._bare,
        )

    def counts(self) -> Counter[str]:
        """Return how many records were paired how, over all parts."""
        return sum((part.counts() for part in self.parts), Counter())

    def write(self, folder: Path, formats: Sequence[str] = ("csv",), *, advice: bool = True) -> list[Path]:
        """Write a table for each part and format, and the advisor's file; return what was written."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunWriteError(folder, (error.strerror or str(error)).lower()) from None
        written: list[Path] = []
        for part in self.parts:
            title = self._name("compare_result", part)
            table = self._table(part, title)
            for name in formats:
                plugin: Any = plugins.load("report.formats", name)
                # compare_result_rank0.json is the name that -da has for something else.
                is_taken = plugin.suffix == ".json" and "_rank" in title
                stem = self._name("compare_table", part) if is_taken else title
                done = plugin.write(table, folder / f"{stem}{plugin.suffix}")
                written += done.files
                self.notes += done.notes
            if advice:
                written.append(
                    _write(
                        folder / f"{self._name('advisor', part)}.txt",
                        advisor_text(part.rows, part.mode, part.divergence),
                    )
                )
        return written

    def to_csv(self, path: str | Path) -> list[Path]:
        """Write the tables into a folder, or the only one as a file if `path` is called so; the same for the others."""
        return self._write_as("csv", Path(path))

    def to_xlsx(self, path: str | Path) -> list[Path]:
        return self._write_as("xlsx", Path(path))

    def to_json(self, path: str | Path) -> list[Path]:
        return self._write_as("json", Path(path))

    def _write_as(self, name: str, path: Path) -> list[Path]:
        if path.suffix != f".{name}":
            return self.write(path, [name], advice=False)
        if len(self.parts) > 1:
            raise ConfigError(f"{path} names one file, and there are {len(self.parts)} tables; name a folder.")
        plugin: Any = plugins.load("report.formats", name)
        done = plugin.write(self._table(self.parts[0], path.stem), path)
        self.notes += done.notes
        return list(done.files)

    def _table(self, part: PartComparison, title: str) -> Table:
        colours = part.colours if any(part.colours) else []
        return Table(frame=part.frame, title=title, numeric=NUMERIC, colours=colours)

    def _name(self, what: str, part: PartComparison) -> str:
        ranks, steps = {entry.rank for entry in self.parts}, {entry.step for entry in self.parts}
        step = f"_step{part.step}" if len(steps) > 1 else ""
        rank = f"_rank{part.rank}" if len(ranks) > 1 else ""
        is_point = what == "compare_result" and bool(part.rows) and all(row.direction == "debug" for row in part.rows)
        return f"{'debug_' if is_point else ''}{what}{step}{rank}_{self.timestamp}"


def compare_runs(
    candidate: str | Path,
    baseline: str | Path,
    options: Options,
    show: Show = lambda what, done, of: None,
) -> Comparison:
    """Compare every step and rank that both runs have; what only one has is a note."""
    left, right = open_run(candidate), open_run(baseline)
    pairs, notes = _paired(left, right)
    if {part.info.tool == "msprobe" for pair in pairs[:1] for part in pair} == {True, False}:
        notes.append("one run alone is msprobe's, which has wrong gradients of some calls: trust forward records more.")
    if options.stack_path and len(pairs) == 1:
        pairs[0][0].use_stacks(Path(options.stack_path))
    parts = []
    for mine, other in pairs:
        what = f"comparing step {mine.step}, rank {mine.rank}"
        show(what, 0, 0)
        part = PartComparison(mine, other, options, partial(show, what))
        notes += [f"step {mine.step}, rank {mine.rank}: {note}" for note in part.notes]
        notes += [f"candidate: {problem}" for problem in mine.problems]
        notes += [f"baseline: {problem}" for problem in other.problems]
        parts.append(part)
    done = Comparison(Path(candidate), Path(baseline), parts, notes)
    done.parts_alone = len(left.parts) + len(right.parts) - 2 * len(pairs)
    return done


def _paired(left: RunReader, right: RunReader) -> tuple[list[tuple[RunPart, RunPart]], list[str]]:
    if len(left.parts) == len(right.parts) == 1:
        return [(left.parts[0], right.parts[0])], _about_places(left, right)
    mine, others = _by_place(left), _by_place(right)
    both = sorted(mine.keys() & others.keys())
    notes = [
        f"step {step}, rank {rank} is in the {side} alone and was not compared."
        for side, alone in (("candidate", mine.keys() - others.keys()), ("baseline", others.keys() - mine.keys()))
        for step, rank in sorted(alone)
    ]
    if not both:
        raise RunNotFoundError(
            f"{left.path} and {right.path} have no step and rank in common: the candidate has steps {left.steps} "
            f"and ranks {left.ranks}, the baseline steps {right.steps} and ranks {right.ranks}."
        )
    return [(mine[key], others[key]) for key in both], notes


def _by_place(run: RunReader) -> dict[tuple[int, int], RunPart]:
    """Return the parts by step and rank; a single process has rank 0, whatever its own number."""
    is_process = len(run.ranks) == 1 and all(part.folder.name.startswith("proc") for part in run.parts)
    return {(part.step, 0 if is_process else part.rank): part for part in run.parts}


def _about_places(left: RunReader, right: RunReader) -> list[str]:
    ((step, rank),), ((other_step, other_rank),) = _by_place(left), _by_place(right)
    if (step, rank) == (other_step, other_rank):
        return []
    other = f"step {other_step}, rank {other_rank} of the baseline"
    return [f"step {step}, rank {rank} of the candidate is compared with {other}."]


def _traced(parts: Sequence[PartComparison]) -> list[Divergence | None]:
    """Return where each part parts; an input that differs for no recorded reason is traced to an earlier argument."""
    found = [part.divergence for part in parts]
    first = next((index for index, entry in enumerate(found) if entry is not None), None)
    effect = None if first is None else found[first]
    if first is None or effect is None or effect.kind not in ("weights", "data", "gap"):
        return found
    for index, part in enumerate(parts[: first + 1]):
        cause = part.argument
        is_before = index < first or (effect.kind == "gap" and cause is not None and cause.row < effect.row)
        if cause is not None and is_before and part.rank == parts[first].rank:
            found[index] = cause
            break
    return found


def _place(frame: str) -> str:
    """Return `train.py, line 12` from a frame as stack.json has it."""
    file, _, rest = frame.removeprefix("File ").partition(", line ")
    return f"{Path(file).name}, line {rest.partition(',')[0]}"


def _write(path: Path, content: str) -> Path:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise RunWriteError(path, (error.strerror or str(error)).lower()) from None
    return path


def _has_tensors(row: Row) -> bool:
    sides = row.candidate, row.baseline
    return all(side is not None and isinstance(side.leaf, TensorLeaf) and side.leaf.numel for side in sides)


def _is_bare(row: Row) -> bool:
    if not _has_tensors(row) or row.candidate is None or row.baseline is None:
        return False
    return _holds_something(row.candidate.leaf) != _holds_something(row.baseline.leaf)


def _holds_something(leaf: Leaf) -> bool:
    return isinstance(leaf, TensorLeaf) and (
        leaf.statistics is not None or leaf.checksum is not None or leaf.data_name is not None
    )
