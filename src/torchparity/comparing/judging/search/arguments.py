"""Arguments of a call that are no tensors, or a tensor in one run alone: those that differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from torchparity.comparing.judging.evidence.judged_record import AloneRecord, JudgedRecord, are_tensors
from torchparity.comparing.judging.evidence.operators import operator_of
from torchparity.comparing.judging.figures import LARGEST_NUMBERS, ROUNDED_TO_ANOTHER_DTYPE
from torchparity.comparing.measuring.deviation import has_other_shape
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import Side
from torchparity.records import Leaf, RunInfo, TensorLeaf, ValueLeaf

_COMPARED = frozenset({"bool", "int", "float", "complex", "slice", "torch.Size", "str"})
_ARRAYS = frozenset({"numpy", "__array__", "__dlpack__"})
_READING = _ARRAYS | {"item", "tolist", "__float__", "__int__", "__bool__", "__index__", "is_nonzero", "equal"}
_MISSING = "nothing"
_LONGEST_TEXT = 60


class ArgumentDifference(msgspec.Struct, frozen=True):
    """An argument that differs, with both values as text."""

    item: ItemComparison
    name: str
    values: tuple[str, str]
    is_one_sided: bool  # only one run passes it; its partner may pass the same by default


class NumbersRead:
    """Numbers that a program has, or may have, read out of tensors which differ: arguments may follow from these."""

    def __init__(self) -> None:
        self.has_any = False

    def follow(self, record: JudgedRecord) -> None:
        """Take note of a record that returned other numbers, or tensors of another shape, which tell numbers too."""
        if not self.has_any:
            is_array = operator_of(record.name) in _ARRAYS
            self.has_any = any(_tells_another_number(entry, is_array=is_array) for entry in record.items)

    def begin_step(self, runs: Iterable[RunInfo], alone: Iterable[AloneRecord]) -> None:
        """Take note of numbers that one run alone has read, or that a recording may have left out."""
        self.has_any |= not all(run.has_every_call for run in runs)
        self.has_any |= any(operator_of(entry.record.name) in _READING for entry in alone)


def _tells_another_number(entry: ItemComparison, *, is_array: bool) -> bool:
    if entry.deviation == 0:
        return False
    if has_other_shape(entry.pair):
        return True
    if entry.is_input or entry.candidate is None or entry.baseline is None:
        return False
    mine, other = entry.candidate.leaf, entry.baseline.leaf
    return is_array or (isinstance(mine, ValueLeaf) and mine != other)


def differing_arguments(record: JudgedRecord, rounding: float) -> list[ArgumentDifference]:
    """Return the arguments that differ; `rounding` is the relative difference of floats that rounding explains."""
    both: list[ArgumentDifference] = []
    alone: list[tuple[ItemComparison, bool]] = []  # and whether it is the candidate's
    for entry in record.items:
        if not entry.is_input or are_tensors(entry):
            continue
        mine, other = entry.candidate, entry.baseline
        if mine is not None and other is not None:
            if are_different(mine.leaf, other.leaf, rounding):
                both.append(_difference(record, entry, text_of_side(mine), text_of_side(other), is_one_sided=False))
        elif _says_something(mine or other):
            alone.append((entry, mine is not None))
    return both + _one_sided(record, alone)


def rounded_numbers(record: JudgedRecord, rounding: float) -> float:
    """Return how far numbers of a call are apart that rounding explains, relatively: its result may be off by it too.

    Infinite for the largest numbers of two dtypes, 0 where all numbers are equal.
    """
    pairs = [
        (mine.leaf, other.leaf)
        for entry in record.items
        if entry.is_input and (mine := entry.candidate) is not None and (other := entry.baseline) is not None
    ]
    rounded = [pair for pair in pairs if are_different(*pair, 0.0) and not are_different(*pair, rounding)]
    return max((_relative_difference(*pair) for pair in rounded), default=0.0)


def _relative_difference(mine: Leaf, other: Leaf) -> float:
    values = [leaf.value for leaf in (mine, other) if isinstance(leaf, ValueLeaf)]
    if any(abs(value) in LARGEST_NUMBERS for value in values):
        return math.inf
    return float(abs(values[0] - values[1]) / max(map(abs, values)))


def _one_sided(record: JudgedRecord, alone: Sequence[tuple[ItemComparison, bool]]) -> list[ArgumentDifference]:
    """Return what one run alone passes: not what the other passes under another name.

    What has something else in its place, such as a tensor of other dimensions, is told with both.
    """
    left = {record.short_name(entry): text_of_side(entry.candidate) for entry, is_candidates in alone if is_candidates}
    right = {
        record.short_name(entry): text_of_side(entry.baseline) for entry, is_candidates in alone if not is_candidates
    }
    for place, text in list(left.items()):
        elsewhere = next((other for other, value in right.items() if value == text and other not in left), None)
        if elsewhere is not None and place not in right:
            del left[place], right[elsewhere]
    differences = []
    for entry, is_candidates in alone:
        place = record.short_name(entry)
        if place in left if is_candidates else place in right and place not in left:
            values = left.get(place, _MISSING), right.get(place, _MISSING)
            differences.append(_difference(record, entry, *values, is_one_sided=True))
    return differences


def _difference(
    record: JudgedRecord, entry: ItemComparison, mine: str, other: str, *, is_one_sided: bool
) -> ArgumentDifference:
    return ArgumentDifference(entry, record.short_name(entry), (mine, other), is_one_sided)


def are_different(mine: Leaf, other: Leaf, rounding: float) -> bool:
    """Tell whether two values differ, floats by more than `rounding`, relatively; not of types that may be any."""
    if not isinstance(mine, ValueLeaf) or not isinstance(other, ValueLeaf):
        return (mine is None) != (other is None) and _is_compared(mine or other)
    if not {mine.type, other.type} <= _COMPARED or mine.value == other.value:
        return False
    if mine.value != mine.value and other.value != other.value:  # nan is not itself
        return False
    numbers = [value for value in (mine.value, other.value) if isinstance(value, (int, float))]
    if len(numbers) == 2 and "float" in (mine.type, other.type):
        if rounding >= ROUNDED_TO_ANOTHER_DTYPE and all(abs(number) in LARGEST_NUMBERS for number in numbers):
            return False
        return any(map(math.isinf, numbers)) or abs(numbers[0] - numbers[1]) > rounding * max(map(abs, numbers))
    return True


def _is_compared(leaf: Leaf) -> bool:
    return isinstance(leaf, TensorLeaf) or (isinstance(leaf, ValueLeaf) and leaf.type in _COMPARED)


def _says_something(side: Side | None) -> bool:
    return side is not None and _is_compared(side.leaf)


def text_of_side(side: Side | None) -> str:
    """Return a value as a sentence shows it; "nothing" for None."""
    leaf = side.leaf if side is not None else None
    if isinstance(leaf, TensorLeaf):
        return f"a tensor of shape {list(leaf.shape)}"
    if not isinstance(leaf, ValueLeaf):
        return _MISSING
    text = repr(leaf.value) if isinstance(leaf.value, str) else str(leaf.value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
