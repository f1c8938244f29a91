"""Pairs the records of two runs.

By name first. Where calls were added, left out, fused or renamed, the rest is aligned by
what the calls look like: operator, enclosing module, shapes; in the order in which they ran.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from torchparity.naming import backward_of, family_of, forward_of, is_module_name, without_call
from torchparity.records import Record, TensorLeaf
from torchparity.spellings import canonical_operator
from torchparity.storage import RunPart

How = Literal["name", "realigned", "renamed", "fuzzy", "mapped", "unmatched"]
Alignment = Literal["name", "order", "fuzzy"]
Look = tuple[str, str, tuple[tuple[int, ...], ...]]  # operator, enclosing module, shapes
_LONGEST = 20_000  # records between two anchors that are aligned exactly; what is longer is aligned by name
_FRAME = r"File .+?, line \d+, in (?P<function>[^,\n]+)"


class RecordPair(msgspec.Struct, gc=False):
    """A record of either run or of both; `how` says why they are together."""

    candidate: Record | None
    baseline: Record | None
    how: How

    @property
    def is_recompute(self) -> bool:
        """True where the call was done again for activation checkpointing."""
        record = self.candidate or self.baseline
        return record is not None and record.is_recompute


class Parents(msgspec.Struct):
    """The place that each record of both runs was called from: its enclosing module, or what stands for it."""

    candidate: Mapping[str, str | None] = {}
    baseline: Mapping[str, str | None] = {}

    @property
    def differ(self) -> bool:
        """True where records of the same names were called from other places, as modules in another order are."""
        return self.candidate != self.baseline


def parents_of(candidate: RunPart, baseline: RunPart) -> Parents:
    """Return what both runs tell: the enclosing modules, else the functions that call, else nothing."""
    if any(candidate.construct.values()) and any(baseline.construct.values()):
        return Parents(candidate.construct, baseline.construct)
    if candidate.stacks and baseline.stacks:
        return Parents(_callers(candidate), _callers(baseline))
    return Parents()


def _callers(part: RunPart) -> dict[str, str | None]:
    """Return the user's function that made each call; lines move, and what is further out may be another script."""
    callers: dict[str, str | None] = {}
    for group in part.stacks:
        own = (re.match(_FRAME, frame) for frame in group.frames if "site-packages" not in frame)
        callers |= dict.fromkeys(group.records, next((frame["function"] for frame in own if frame), None))
    return callers


def align(
    candidate: Mapping[str, Record],
    baseline: Mapping[str, Record],
    by: Alignment,
    parents: Parents | None = None,
) -> list[RecordPair]:
    """Return every record of both runs once: the candidate's in their order, then those of the baseline alone."""
    parents = parents or Parents()
    if by == "fuzzy":
        partners = _fuzzy(candidate, baseline, parents)
    elif by == "order" and (list(candidate) != list(baseline) or parents.differ):
        partners = _by_order(candidate, baseline, parents)
    else:
        partners = {name: name for name in candidate if name in baseline}
    pairs = [
        RecordPair(record, baseline[partners[name]], _how(name, partners[name], by))
        if name in partners
        else RecordPair(record, None, "unmatched")
        for name, record in candidate.items()
    ]
    taken = set(partners.values())
    return pairs + [RecordPair(None, record, "unmatched") for name, record in baseline.items() if name not in taken]


def _how(name: str, partner: str, by: Alignment) -> How:
    if name == partner:
        return "name"
    if by == "fuzzy":
        return "fuzzy"
    return "realigned" if without_call(name) == without_call(partner) else "renamed"


def _fuzzy(candidate: Mapping[str, Record], baseline: Mapping[str, Record], parents: Parents) -> dict[str, str]:
    """Read both runs in step and pair the newest call of one with the oldest that fits on the other.

    What is passed on the way is dropped. Calls fit that differ in their number alone, from the same module or
    function, with tensors of the same shapes.
    """
    left = [(name, _form(name, record, parents.candidate)) for name, record in candidate.items()]
    right = [(name, _form(name, record, parents.baseline)) for name, record in baseline.items()]
    partners: dict[str, str] = {}
    mine: list[tuple[str, object]] = []
    others: list[tuple[str, object]] = []
    for index in range(max(len(left), len(right))):
        mine += left[index : index + 1]
        others += right[index : index + 1]
        places = _newest_fits(mine, others) if index < len(left) else None
        if places is None and index < len(right):
            turned = _newest_fits(others, mine)
            places = turned and (turned[1], turned[0])
        if places is not None:
            partners[mine[places[0]][0]] = others[places[1]][0]
            del mine[: places[0] + 1], others[: places[1] + 1]
    return partners


def _newest_fits(entries: Sequence[tuple[str, object]], others: Sequence[tuple[str, object]]) -> tuple[int, int] | None:
    wanted = entries[-1][1]
    return next(((len(entries) - 1, place) for place, (_, form) in enumerate(others) if form == wanted), None)


def _form(name: str, record: Record, parents: Mapping[str, str | None]) -> object:
    if is_module_name(name):
        return name, _shapes(record)
    return without_call(name), without_call(parents.get(name) or ""), _shapes(record)


def _shapes(record: Record) -> tuple[tuple[int, ...], ...]:
    return tuple(item.leaf.shape for item in record.items() if isinstance(item.leaf, TensorLeaf))


def _by_order(candidate: Mapping[str, Record], baseline: Mapping[str, Record], parents: Parents) -> dict[str, str]:
    """Align forward API calls in the order in which they ran; modules and gradients follow them, else by name."""
    left = [name for name, record in candidate.items() if _is_call(record)]
    right = [name for name, record in baseline.items() if _is_call(record)]
    mine = [look_of(candidate[name], parents.candidate.get(name)) for name in left]
    theirs = [look_of(baseline[name], parents.baseline.get(name)) for name in right]
    asks = [[_asks_for_gradients(run[name]) for name in names] for run, names in ((candidate, left), (baseline, right))]
    partners = {left[i]: right[j] for i, j in _best_matching(mine, theirs, asks[0], asks[1])}
    partners |= _moved(dict(zip(left, mine, strict=True)), dict(zip(right, theirs, strict=True)), partners)
    modules = _modules(partners, parents)
    taken = set(partners.values())
    partners |= {name: name for name in left if name not in partners and name in baseline and name not in taken}
    partners |= {name: other for name, other in modules.items() if name in candidate and other in baseline}
    partners |= _gradients(partners, candidate, baseline)
    taken = set(partners.values())
    others = (name for name in candidate if name not in partners and name in baseline and name not in taken)
    return partners | {name: name for name in others if not _has_moved(name, candidate, baseline, partners)}


def _moved(mine: Mapping[str, Look], theirs: Mapping[str, Look], partners: Mapping[str, str]) -> dict[str, str]:
    """Return the calls of modules that the baseline calls earlier or later.

    They pair where both runs leave the same calls of a module without a partner.
    """
    taken = set(partners.values())
    here = _by_module({name: look for name, look in mine.items() if name not in partners})
    there = _by_module({name: look for name, look in theirs.items() if name not in taken})
    moved: dict[str, str] = {}
    for module, names in here.items():
        others = there.get(module, [])
        if [mine[name] for name in names] == [theirs[name] for name in others]:
            moved |= zip(names, others, strict=True)
    return moved


def _by_module(looks: Mapping[str, Look]) -> dict[str, list[str]]:
    by_module: dict[str, list[str]] = {}
    for name, (_, module, _) in looks.items():
        if is_module_name(module):
            by_module.setdefault(module, []).append(name)
    return by_module


def _modules(partners: Mapping[str, str], parents: Parents) -> dict[str, str]:
    """Return the calls of modules, each with that call of the same module which has most of its calls' partners."""
    votes: Counter[tuple[str, str]] = Counter()
    for name, partner in partners.items():
        mine, other = parents.candidate.get(name), parents.baseline.get(partner)
        while mine and other and is_module_name(mine) and without_call(mine) == without_call(other):
            votes[mine, other] += 1
            mine, other = parents.candidate.get(mine), parents.baseline.get(other)
    found: dict[str, str] = {}
    taken: set[str] = set()
    for (mine, other), _ in votes.most_common():
        if mine not in found and other not in taken:
            found[mine] = other
            taken.add(other)
    return found


def _has_moved(
    name: str, candidate: Mapping[str, Record], baseline: Mapping[str, Record], partners: Mapping[str, str]
) -> bool:
    """Tell whether a backward's forward call belongs to another call than the one of the same name."""
    forward = forward_of(name)
    return forward != name and forward in candidate and forward in baseline and partners.get(forward) != forward


def _gradients(
    partners: Mapping[str, str], candidate: Mapping[str, Record], baseline: Mapping[str, Record]
) -> dict[str, str]:
    """Return the backward records of the calls that have partners, each with that of its partner."""
    gradients = {}
    for name, record in candidate.items():
        if record.direction != "backward" or (partner := partners.get(forward_of(name))) is None:
            continue
        mark = "".join(name.partition("#")[1:])
        if (other := backward_of(partner) + mark) in baseline:
            gradients[name] = other
    return gradients


def _is_call(record: Record) -> bool:
    """Tell whether a record is a forward call of an API; recomputed ones are no part of the order."""
    return record.direction == "forward" and not is_module_name(record.name) and not record.is_recompute


def look_of(record: Record, parent: str | None = None) -> Look:
    """Return what calls have in common that may be partners: operator, enclosing module, shapes."""
    operator = canonical_operator(family_of(record.name))
    operator = operator.partition(".")[2] or operator  # Tensor.add and Torch.add are one operator
    return operator, without_call(parent or ""), _shapes(record)


def matching_calls(left: Sequence[Record], right: Sequence[Record]) -> list[tuple[int, int]]:
    """Return the places of those calls of one place that look alike, in their order."""
    looks = [[look_of(record) for record in records] for records in (left, right)]
    return list(_matching(looks[0], looks[1]))


def _asks_for_gradients(record: Record) -> bool:
    return any(
        item.role == "output" and isinstance(item.leaf, TensorLeaf) and bool(item.leaf.requires_grad)
        for item in record.items()
    )


def _best_matching(
    left: Sequence[object], right: Sequence[object], left_asks: Sequence[bool], right_asks: Sequence[bool]
) -> list[tuple[int, int]]:
    """Return the places of calls that look alike; of two ways, the one where as many ask for gradients in both runs.

    So an evaluation that one run alone makes is not taken for the forward pass of the other.
    """
    places = list(_matching(left, right))
    if all(left_asks[i] == right_asks[j] for i, j in places):
        return places
    strict = list(_matching(list(zip(left, left_asks, strict=True)), list(zip(right, right_asks, strict=True))))
    return strict if len(strict) >= len(places) else places


def _matching(left: Sequence[object], right: Sequence[object]) -> Iterator[tuple[int, int]]:
    """Yield the places of a longest common subsequence; a common beginning and end need no search."""
    first = 0
    while first < min(len(left), len(right)) and left[first] == right[first]:
        yield first, first
        first += 1
    last = 0
    while last < min(len(left), len(right)) - first and left[-1 - last] == right[-1 - last]:
        last += 1
    middle_left, middle_right = left[first : len(left) - last], right[first : len(right) - last]
    if len(middle_left) <= _LONGEST and len(middle_right) <= _LONGEST:
        from difflib import SequenceMatcher  # not loaded where both runs have the same calls

        matcher = SequenceMatcher(None, middle_left, middle_right, autojunk=False)
        for block in matcher.get_matching_blocks():
            for offset in range(block.size):
                yield first + block.a + offset, first + block.b + offset
    for back in range(last, 0, -1):
        yield len(left) - back, len(right) - back
