"""DDP's law: ranks that hold the same parameters feed their optimizers the same gradients, and stay the same.

DDP reduces gradients inside of torch, where nothing is recorded. What the optimizer reads is recorded, and replicas
must read the same. Ranks are replicas where all their parameters are equal when the first recorded step begins, by
name and content; a tensor of one number repeated tells nothing. Where the optimizer holds other parameters on each
rank, as FSDP's and ZeRO's shards are, the law does not apply.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from torchparity.code_lines import code_lines
from torchparity.communication.laws.by_statistics import check_copy
from torchparity.communication.laws.findings import BrokenLaw, LawReport, Measured, UncheckedLaw
from torchparity.communication.transfers import communicates
from torchparity.naming import OPTIMIZER, family_of
from torchparity.records import Item, Record, TensorLeaf
from torchparity.storage import RunPart

LAW: Final = "replicas"
_Parameters = dict[str, tuple[str, str, TensorLeaf]]  # by name: record, item and what it was at first


class Replicas:
    """The ranks that hold the same parameters, as the first step shows, and the check of each step."""

    def __init__(self) -> None:
        self._classes: list[tuple[int, ...]] | None = None
        self._optimized_alike: list[tuple[int, ...]] = []

    def check_step(self, parts: Sequence[RunPart], report: LawReport) -> None:
        """Check that replicas hold the same parameters, and that their optimizers read the same."""
        by_rank = {part.rank: part for part in parts}
        held = {rank: _parameters(part.records.values(), part) for rank, part in by_rank.items()}
        if self._classes is None:
            for reason in filter(None, (self._find(by_rank, held), self._left_alone(held))):
                group = tuple(by_rank)
                report.unchecked.append(UncheckedLaw(parts[0].step, LAW, group, "all parameters", reason))
        for ranks in self._classes or ():
            recorded = [by_rank[rank] for rank in ranks if rank in by_rank]
            if len(recorded) > 1:
                _check_parameters(recorded, held, report)
                if ranks in self._optimized_alike:
                    _check_optimizer(recorded, report)

    def _find(self, parts: Mapping[int, RunPart], held: Mapping[int, _Parameters]) -> str:
        """Find the ranks that are replicas of one another; return why some law does not apply."""
        self._classes = []
        if not all(held.values()):
            return "the run does not tell which tensors are parameters"
        self._classes = _equal_ranks(held)
        if not self._classes:
            return "the parameters differ over ranks, as those of shards and of stages do"
        read = {
            rank: _parameters((part.records[name] for name in _optimizer_records(part)), part)
            for rank, part in parts.items()
        }
        if not all(read.values()):
            return "no call of an optimizer is recorded that reads parameters"
        self._optimized_alike = [
            ranks for ranks in self._classes if _equal_ranks({rank: read[rank] for rank in ranks}) == [ranks]
        ]
        return "" if self._optimized_alike else "the optimizers hold other parameters on each rank, as of shards"

    def _left_alone(self, held: Mapping[int, _Parameters]) -> str:
        """Return which rank is nobody's replica although others of the same parameters are, "" where none is."""
        for ranks in self._classes or ():
            for rank in held.keys() - set(chain.from_iterable(self._classes or ())):
                first, mine = held[ranks[0]], held[rank]
                if first.keys() == mine.keys() and all(_are_alike(first[name][2], mine[name][2]) for name in first):
                    other = next(name for name in first if not _is_same(_compared(mine[name][2], first[name][2])))
                    return (
                        f"rank {rank} is left out, whose parameter {other} is not that of rank {ranks[0]} when the "
                        "recording begins"
                    )
        return ""


def _equal_ranks(held: Mapping[int, _Parameters]) -> list[tuple[int, ...]]:
    classes: list[list[int]] = []
    for rank, mine in held.items():
        home = next((each for each in classes if _are_equal(held[each[0]], mine)), None)
        if home is None:
            classes.append([rank])
        else:
            home.append(rank)
    return [tuple(ranks) for ranks in classes if len(ranks) > 1]


def _are_equal(left: _Parameters, right: _Parameters) -> bool:
    """Tell whether two ranks hold the same parameters; those of one repeated number do not count."""
    telling = [name for name in left if not _is_constant(left[name][2])]
    if left.keys() != right.keys() or not telling:
        return False
    return all(_is_same(_compared(left[name][2], right[name][2])) for name in telling)


def _are_alike(left: TensorLeaf, right: TensorLeaf) -> bool:
    return (left.dtype, left.shape) == (right.dtype, right.shape)


def _is_same(found: Measured | str) -> bool:
    return isinstance(found, Measured) and not found.is_broken


def _is_constant(leaf: TensorLeaf) -> bool:
    numbers = leaf.statistics
    return numbers is not None and numbers.max == numbers.min


def _parameters(records: Iterable[Record], part: RunPart) -> _Parameters:
    """Return every parameter with its content when some records first read it."""
    found: _Parameters = {}
    for record in records:
        if record.direction == "forward":
            for item in record.items():
                if item.role in ("input", "parameters") and isinstance(item.leaf, TensorLeaf):
                    name = _parameter_name(item.leaf, part)
                    if name:
                        found.setdefault(name, (record.name, item.name, item.leaf))
    return found


def _parameter_name(leaf: TensorLeaf, part: RunPart) -> str:
    origins = part.origins_of(leaf)
    return origins[0].name if origins and origins[0].kind == "parameter" else ""


def _optimizer_records(part: RunPart) -> list[str]:
    """Return the calls of the optimizer that compute; ZeRO's sends what it computed to the other ranks."""
    calls = (name for name in part.records if part.construct.get(name) == OPTIMIZER)
    return [name for name in calls if not communicates(name)]


def _check_parameters(parts: Sequence[RunPart], held: Mapping[int, _Parameters], report: LawReport) -> None:
    first = parts[0]
    for name, (_, item, leaf) in held[first.rank].items():
        others = {part.rank: held[part.rank].get(name) for part in parts[1:]}
        found = {
            rank: _compared(other[2], leaf) if other is not None else f"rank {rank} has no record that reads it"
            for rank, other in others.items()
        }
        records = {part.rank: held[part.rank][name][0] for part in parts if name in held[part.rank]}
        clause = f"(parameter {name}) is not what rank {first.rank} has"
        if _adds_finding(parts, records, item, clause, found, report):
            return  # the other parameters follow from the same cause


def _check_optimizer(parts: Sequence[RunPart], report: LawReport) -> None:
    first = parts[0]
    calls = {part.rank: _numbered(_optimizer_records(part)) for part in parts}
    for call, name in calls[first.rank].items():
        records = {rank: of_rank[call] for rank, of_rank in calls.items() if call in of_rank}
        for item in _read_tensors(first.records[name]):
            found = {
                part.rank: _compared(_leaf_of(part, records[part.rank], item.name), item.leaf)
                if part.rank in records
                else f"the optimizer of rank {part.rank} has no such call"
                for part in parts[1:]
            }
            clause = f"{_made_by(item, first)}is not what the optimizer of rank {first.rank} reads"
            if _adds_finding(parts, records, item.name, clause, found, report):
                return  # what the optimizer does next follows from it


def _numbered(names: Sequence[str]) -> dict[tuple[str, int], str]:
    """Return the records by family and number among these: one rank may call the same functions elsewhere, too."""
    count: Counter[str] = Counter()
    numbered: dict[tuple[str, int], str] = {}
    for name in names:
        family = family_of(name)
        numbered[family, count[family]] = name
        count[family] += 1
    return numbered


def _adds_finding(
    parts: Sequence[RunPart],
    records: Mapping[int, str],
    item: str,
    clause: str,
    found: Mapping[int, Measured | str],
    report: LawReport,
) -> bool:
    """Add what was found of one tensor to the report; return True where the law is broken."""
    wrong = {rank: each for rank, each in found.items() if isinstance(each, Measured) and each.is_broken}
    if wrong:
        report.broken.append(_broken(parts, records, item, clause, wrong))
        return True
    reason = next((each for each in found.values() if isinstance(each, str)), "")
    if reason:
        first = parts[0]
        group = tuple(part.rank for part in parts)
        report.unchecked.append(UncheckedLaw(first.step, LAW, group, records[first.rank], reason))
    else:
        report.held[LAW] += 1
    return False


def _made_by(item: Item, part: RunPart) -> str:
    origins = part.origins_of(item.leaf) if isinstance(item.leaf, TensorLeaf) else ()
    names = [origin.name for origin in origins if origin.kind == "record"]
    return f"(made by {names[-1]}) " if names else ""


def _read_tensors(record: Record) -> list[Item]:
    return [item for item in record.items() if item.role == "input" and isinstance(item.leaf, TensorLeaf)]


def _leaf_of(part: RunPart, record: str, item: str) -> TensorLeaf | None:
    items = part.records[record].items() if record in part.records else []
    leaf = next((each.leaf for each in items if each.name == item), None)
    return leaf if isinstance(leaf, TensorLeaf) else None


def _compared(mine: TensorLeaf | None, other: object) -> Measured | str:
    if mine is None or not isinstance(other, TensorLeaf) or (mine.dtype, mine.shape) != (other.dtype, other.shape):
        return "they have other shapes or dtypes"
    if mine.checksum is not None and other.checksum is not None:
        return Measured("checksums", mine.checksum != other.checksum)
    if mine.stored_in is not None and other.stored_in is not None and mine.stored_in.crc32 == other.stored_in.crc32:
        return Measured("checksums", False)
    return check_copy(mine, other)


def _broken(
    parts: Sequence[RunPart], records: Mapping[int, str], item: str, clause: str, wrong: Mapping[int, Measured]
) -> BrokenLaw:
    """Return the finding; where most ranks differ from the first, the first is the odd one."""
    ranks, first = tuple(wrong), parts[0]
    group = tuple(part.rank for part in parts)
    worst = max(wrong.values(), key=lambda each: each.relative)
    if len(ranks) == len(group) - 1 and len(ranks) > 1:
        ranks, clause = (first.rank,), clause.replace(f"rank {first.rank}", "the other ranks")
    lines = code_lines(first.stack_of(records[first.rank]))
    worst = worst if math.isinf(worst.relative) else replace(worst, detail="")
    return BrokenLaw(first.step, LAW, clause, group, ranks, dict(records), item, worst, lines)
