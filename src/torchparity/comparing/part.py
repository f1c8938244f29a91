"""Compares one step of one rank on both sides: pairs, measures, judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from torchparity.comparing.engines import Engine
from torchparity.comparing.engines.local import LocalEngine
from torchparity.comparing.measuring.checksums import compare_checksums
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.mode import mode_of
from torchparity.comparing.measuring.pair_reader import Progress
from torchparity.comparing.measuring.statistics import compare_statistics
from torchparity.comparing.measuring.values import ValueComparer
from torchparity.comparing.options import Options
from torchparity.comparing.pairing.items import ItemPair, item_pairs
from torchparity.comparing.pairing.mapping import (
    mapped_pairs,
    partner_name,
    renamed,
    renamed_modules,
    with_partner_names,
)
from torchparity.comparing.pairing.operands import Operands
from torchparity.comparing.pairing.optimizer_calls import paired_by_parameter
from torchparity.comparing.pairing.records import Parents, RecordPair, align, parents_of
from torchparity.comparing.rank_map import with_partner_ranks
from torchparity.naming import forward_of, is_module_name
from torchparity.storage import RunPart

if TYPE_CHECKING:
    import polars as pl

    from torchparity.comparing.msprobe.rows import Judgement, TableRow

_THREADS = LocalEngine()


class PartComparison:
    """One step of one rank, whose records are paired and whose items are compared by `measure`.

    `pairs` are the records of both runs.
    """

    def __init__(self, candidate: RunPart, baseline: RunPart, options: Options, engine: Engine = _THREADS) -> None:
        self.candidate, self.baseline, self._options = candidate, baseline, options
        self.mode, self.notes = mode_of(candidate, baseline)
        by_partner = with_partner_names(baseline.records, options.module_partners)
        self._renamed_baseline = renamed_modules(by_partner, options.cell_mapping, candidate.records)
        self.pairs = self._align()
        self._item_pairs, self._engine = self._paired_items(), engine
        self._values: ValueComparer | None = None
        if self.mode == "values":
            self._values = ValueComparer(candidate, baseline, chain.from_iterable(self._item_pairs))
            engine.begin(self._values.reader)

    @cached_property
    def groups(self) -> list[list[ItemComparison]]:
        """The items of each pair of records, with what comparing them gave; measured here where `measure` was not."""
        return self._compared(lambda done, of: None)

    @cached_property
    def comparisons(self) -> list[ItemComparison]:
        """The same in one list."""
        return list(chain.from_iterable(self.groups))

    def measure(self, progress: Progress = lambda done, of: None) -> None:
        """Compare the items of every pair of records; what was opened for it is closed."""
        self.groups = self._compared(progress)

    @property
    def rank(self) -> int:
        """The candidate's rank."""
        return self.candidate.rank

    @property
    def step(self) -> int:
        """The candidate's step."""
        return self.candidate.step

    @property
    def parents(self) -> Mapping[str, str | None]:
        """The place that each record of the candidate was called from."""
        return self.candidate.construct

    @cached_property
    def judgements(self) -> list[Judgement]:
        """msprobe's verdicts, sentences and colours, one for each of the comparisons."""
        from torchparity.comparing.msprobe.rows import judgements  # a headline needs no tables

        return judgements(self.groups, self.mode, highlight=self._options.highlight)

    @property
    def rows(self) -> list[TableRow]:
        """The rows of the table: each comparison with its judgement."""
        from torchparity.comparing.msprobe.rows import TableRow

        return list(map(TableRow, self.comparisons, self.judgements))

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The table, with the columns of its mode."""
        return self.make_frame()

    def make_frame(self) -> pl.DataFrame:
        """Return a table that nobody keeps: of many ranks, together they would be the most there is in memory."""
        # Loads polars, which takes as long as comparing statistics.
        from torchparity.comparing.msprobe.cells import table_frame

        wanted = self._options.stacks
        with_stacks = bool(self.candidate.stacks) if wanted is None else wanted
        return table_frame(
            self.comparisons, self.judgements, self.mode, self._stacks.__getitem__ if with_stacks else None
        )

    @property
    def colours(self) -> list[str | None]:
        """The colour of each row, or None."""
        return [judgement.colour for judgement in self.judgements]

    def counts(self) -> Counter[str]:
        """Return how many records were paired how; those of one side alone apart."""
        counts: Counter[str] = Counter()
        for pair in self.pairs:
            alone = "candidate only" if pair.baseline is None else "baseline only"
            counts[alone if pair.how == "unmatched" else pair.how] += 1
        return counts

    def stack_of(self, record: str) -> Sequence[str]:
        """Return the frames of the call of a record, innermost first."""
        return self._stacks[record]

    def lines_of(self, record: str) -> Sequence[str]:
        """Return where a record was called; of a module, where the first call inside of it was, if there is one.

        A backward record was called where its forward call was.
        """
        name = forward_of(record)
        called = self.stack_of(name)
        if not is_module_name(name):
            return called
        inside = (child for child, parent in self.parents.items() if parent == name)
        return next((frames for child in inside if (frames := self.stack_of(child))), called)

    @cached_property
    def _stacks(self) -> _Stacks:
        return _Stacks(self.candidate)

    def _align(self) -> list[RecordPair]:
        mapping = self._options.cell_mapping
        parents = Parents(self.candidate.construct, self.baseline.construct)
        if self._options.by == "fuzzy":
            parents = parents_of(self.candidate, self.baseline)
        if mapping:
            back = {baseline: name for name, baseline in mapping.items()}
            of_baseline = {name: parent and renamed(parent, back) for name, parent in parents.baseline.items()}
            parents = Parents(parents.candidate, of_baseline)
        if self._options.module_partners:
            back = {baseline: name for name, baseline in self._options.module_partners.items()}
            of_baseline = {
                partner_name(name, back): parent and partner_name(parent, back)
                for name, parent in parents.baseline.items()
            }
            parents = Parents(parents.candidate, of_baseline)
        pairs = align(self.candidate.records, self._renamed_baseline, self._options.by, parents)
        is_renamed = bool(mapping or self._options.module_partners)
        if self._options.by != "order" or is_renamed:
            return pairs
        return paired_by_parameter(self.candidate, self.baseline, pairs)

    def _paired_items(self) -> list[list[ItemPair]]:
        operands = Operands(self.pairs if self._options.by == "order" else ())
        groups = [
            item_pairs(
                pair.candidate,
                pair.baseline,
                is_fuzzy=pair.how == "fuzzy",
                places=operands.places(pair.candidate),
            )
            for pair in self.pairs
        ]
        mapping = self._options.data_mapping
        return mapped_pairs(groups, mapping, self.baseline.records) if mapping else groups

    def _compared(self, progress: Progress) -> list[list[ItemComparison]]:
        compare = compare_statistics if self.mode == "statistics" else compare_checksums
        if self._values is not None:
            meanwhile = _load_tables if self._options.writes_tables else _load_nothing
            self._engine.finish(self._values.reader, progress, meanwhile)
            compare = self._values.compare
        groups = [[compare(pair) for pair in group] for group in self._item_pairs]
        self.candidate.release_files()
        self.baseline.release_files()
        self._item_pairs, self._values = [], None
        if self._options.rank_map:
            return [with_partner_ranks(group, self._options.rank_map) for group in groups]
        return groups


class _Stacks(dict[str, Sequence[str]]):
    """Call stacks by record; a record without one has an empty stack."""

    def __init__(self, part: RunPart) -> None:
        super().__init__({name: group.frames for group in part.stacks for name in group.records})

    def __missing__(self, record: str) -> Sequence[str]:
        return ()


def _load_tables() -> None:
    """Load what tables need, while other threads compare."""
    from torchparity.comparing.msprobe import cells  # noqa: F401


def _load_nothing() -> None:
    """Load nothing: a headline needs no tables."""
