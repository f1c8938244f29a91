"""Comparing one step of one rank on both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from torchparity.comparing.judging.divergence import Divergence, find_divergence, first_argument
from torchparity.comparing.measuring.metrics import ValueComparer, fill_statistics
from torchparity.comparing.measuring.values import Progress
from torchparity.comparing.msprobe.columns import Mode
from torchparity.comparing.msprobe.highlight import highlight
from torchparity.comparing.msprobe.verdicts import accuracy, checksum_result, requires_grad_agrees, statistics_result
from torchparity.comparing.pairing.mapping import mapped_rows, renamed, renamed_modules
from torchparity.comparing.pairing.records import Alignment, Parents, RecordPair, align, parents_of
from torchparity.comparing.pairing.rows import Row, rows_of
from torchparity.naming import is_module_name
from torchparity.records import Record, TensorLeaf
from torchparity.storage import RunPart

if TYPE_CHECKING:
    import polars as pl

_PLAIN: Mapping[str, str] = {}
_LOOKED_AT = 2000
_SIDES = ("candidate", "baseline")
_WORDS = {"md5": "checksums", "xor": "xor checksums", "statistics": "statistics", "real": "values"}
_MODES: Mapping[str, Mode] = {"real": "real", "md5": "md5", "xor": "md5", "statistics": "statistics"}
_KINDS = tuple(_MODES)  # what can be held of a tensor, the best first


class Options:
    """How two parts are compared.

    `stacks` says whether call stacks are shown, by default where there are any. `stack_path` is the file with
    those of a candidate of one part, where it is not beside the records.
    """

    def __init__(
        self,
        *,
        by: Alignment = "order",
        highlight: bool = False,
        stacks: bool | None = None,
        stack_path: str | None = None,
        data_mapping: Mapping[str, str] = _PLAIN,
        cell_mapping: Mapping[str, str] = _PLAIN,
    ) -> None:
        self.by, self.highlight = by, highlight
        self.stacks, self.stack_path = stacks, stack_path
        self.data_mapping, self.cell_mapping = data_mapping, cell_mapping


class PartComparison:
    """The rows of one pair of parts, judged."""

    def __init__(
        self, candidate: RunPart, baseline: RunPart, options: Options, progress: Progress = lambda done, of: None
    ) -> None:
        self.candidate, self.baseline, self._options = candidate, baseline, options
        self.mode, self.notes = mode_of(candidate, baseline)
        self.pairs = self._align()
        self.rows = self._rows(progress)

    @property
    def rank(self) -> int:
        return self.candidate.rank

    @property
    def step(self) -> int:
        return self.candidate.step

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The table, with the columns of its mode."""
        from torchparity.comparing.msprobe.cells import (
            frame_of,  # loads polars, which takes as long as comparing statistics
        )

        wanted = self._options.stacks
        with_stacks = bool(self.candidate.stacks) if wanted is None else wanted
        return frame_of(self.rows, self.mode, self._stacks.__getitem__ if with_stacks else None)

    @cached_property
    def divergence(self) -> Divergence | None:
        """Where the two parts part."""
        return find_divergence(self.rows, self.mode, self._left_out(), self.candidate.construct)

    @cached_property
    def argument(self) -> Divergence | None:
        """The first argument that differs, whether or not an output shows it."""
        return first_argument(self.rows, self.mode)

    @property
    def colours(self) -> list[str | None]:
        return [row.colour for row in self.rows]

    def counts(self) -> Counter[str]:
        """Return how many records were paired how; those of one side alone apart."""
        found: Counter[str] = Counter()
        for pair in self.pairs:
            alone = "candidate only" if pair.baseline is None else "baseline only"
            found[alone if pair.how == "unmatched" else pair.how] += 1
        return found

    def stack_of(self, record: str) -> Sequence[str]:
        return self._stacks[record]

    def lines_of(self, record: str) -> Sequence[str]:
        """Return where a record was called; of a module, where the first call inside of it was, if there is one."""
        called = self.stack_of(record)
        if not is_module_name(record):
            return called
        inside = (name for name, parent in self.candidate.construct.items() if parent == record)
        return next((frames for name in inside if (frames := self.stack_of(name))), called)

    @cached_property
    def _stacks(self) -> _Stacks:
        return _Stacks(self.candidate)

    def _align(self) -> list[RecordPair]:
        mapping = self._options.cell_mapping
        self._baseline = renamed_modules(self.baseline.records, mapping, self.candidate.records)
        parents = Parents(self.candidate.construct, self.baseline.construct)
        if self._options.by == "fuzzy":
            parents = parents_of(self.candidate, self.baseline)
        if mapping:
            back = {baseline: name for name, baseline in mapping.items()}
            parents.baseline = {name: parent and renamed(parent, back) for name, parent in parents.baseline.items()}
        return align(self.candidate.records, self._baseline, self._options.by, parents)

    def _left_out(self) -> dict[str, str]:
        """Return, for the candidate's records, the first one before each that only the baseline has."""
        alone = {id(pair.baseline): pair.baseline for pair in self.pairs if pair.candidate is None}
        if not alone:
            return {}
        partners = {id(pair.baseline): pair.candidate for pair in self.pairs if pair.candidate is not None}
        found: dict[str, str] = {}
        first: str | None = None
        for record in self._baseline.values():
            if first is None and id(record) in alone and not record.is_recompute:
                first = record.name
            elif first is not None and (partner := partners.get(id(record))) is not None:
                found[partner.name] = first
        return found

    def _rows(self, progress: Progress) -> list[Row]:
        values = ValueComparer(self.candidate, self.baseline)
        grouped = [rows_of(pair.candidate, pair.baseline, is_fuzzy=pair.how == "fuzzy") for pair in self.pairs]
        if self._options.data_mapping:
            grouped = mapped_rows(grouped, self._options.data_mapping, self.baseline.records)
        if self.mode == "real":
            values.read_ahead((row for rows in grouped for row in rows), progress)
        for rows in grouped:
            for row in rows:
                self._judge(row, values)
            if self._options.highlight and self.mode != "md5":
                highlight(rows, self.mode)
        return [row for rows in grouped for row in rows]

    def _judge(self, row: Row, values: ValueComparer) -> None:
        row.messages = ()
        if self.mode == "real":
            values.fill(row)
            row.verdict = accuracy(row)
        elif self.mode == "statistics":
            fill_statistics(row)
            row.verdict = statistics_result(row)
        else:
            row.verdict = checksum_result(row)
        if not requires_grad_agrees(row):
            row.say("Requires_grad inconsistent.")
        if row.is_fuzzy and row.candidate and row.baseline and row.candidate.name != row.baseline.name:
            row.say("Fuzzy matching data, the comparison accuracy may be affected.")


class _Stacks(dict[str, Sequence[str]]):
    """Call stacks by record; a record without one has an empty stack."""

    def __init__(self, part: RunPart) -> None:
        super().__init__({name: group.frames for group in part.stacks for name in group.records})

    def __missing__(self, record: str) -> Sequence[str]:
        return ()


def mode_of(candidate: RunPart, baseline: RunPart) -> tuple[Mode, list[str]]:
    """Return what both runs can be compared by, and a sentence where that is less than one of them holds."""
    held = [_held(part.records.values()) for part in (candidate, baseline)]
    for kind in _KINDS:
        if all(kind in kinds for kinds in held):
            richer = [name for name, kinds in zip(_SIDES, held, strict=True) if _first(kinds) != kind]
            return _MODES[kind], [_weaker(kind, richer)] if richer else []
    if not all(held):
        return "statistics", []
    kept = " and ".join(f"the {side} {_WORDS[_first(kinds)]}" for side, kinds in zip(_SIDES, held, strict=True))
    return "statistics", [f"the runs have nothing in common to compare by: {kept}."]


def _first(kinds: set[str]) -> str:
    return next((kind for kind in _KINDS if kind in kinds), "statistics")


def _weaker(mode: str, richer: Sequence[str]) -> str:
    if len(richer) > 1:
        return f"the runs hold different things; both are compared by their {_WORDS[mode]}."
    return f"the {richer[0]} holds more than the other run; both are compared by their {_WORDS[mode]}."


def _held(records: Iterable[Record]) -> set[str]:
    """Return what a run holds of its tensors, as far as its first records tell."""
    found: set[str] = set()
    for record in islice(records, _LOOKED_AT):
        found |= _kinds(record)
    return found


def _kinds(record: Record) -> set[str]:
    found: set[str] = set()
    for item in record.items():
        leaf = item.leaf
        if isinstance(leaf, TensorLeaf):
            if leaf.data_name is not None:
                found.add("real")
            if leaf.checksum is not None:  # CRC-32, or 64 bits of another kind: one is never the other
                found.add("xor" if leaf.checksum.startswith("0x") else "md5")
            if leaf.statistics is not None:
                found.add("statistics")
    return found
