"""How close two runs are as a whole: the largest deviation, and the dtypes that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from torchparity.comparing.judging.judged_record import are_tensors
from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.judging.verdict import Agreement
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.records import TensorLeaf
from torchparity.text import counted

_MOST_DTYPES = 3


def largest_deviation(parts: Sequence[ComparedPart]) -> Agreement:
    """Return whether all that was compared is equal, else the item that is furthest off."""
    largest, item, is_identical = 0.0, "", True
    for part in parts:
        for entry in _compared(part):
            deviation = entry.deviation
            if deviation:
                is_identical = False
                if largest < deviation < float("inf"):
                    largest, item = deviation, entry.name
    is_bitwise = all(part.mode != "statistics" for part in parts)
    return Agreement(is_identical=is_identical, is_bitwise=is_bitwise, largest=largest, item=item)


def dtype_words(parts: Sequence[ComparedPart]) -> str:
    """Return which dtypes stand against which in how many records, "" where all are the same."""
    pairs: Counter[tuple[str, str]] = Counter()
    records, differing = 0, 0
    for part in parts:
        for group in part.groups:
            records += 1
            found = set(_differing_dtypes(group))
            pairs.update(found)
            differing += bool(found)
    if not pairs:
        return ""
    said = " and ".join(f"{mine} against {other}" for (mine, other), _ in pairs.most_common(_MOST_DTYPES))
    return f"{said} in {differing:,} of {counted(records, 'record')}"


def _differing_dtypes(group: Sequence[ItemComparison]) -> Iterator[tuple[str, str]]:
    for entry in group:
        mine, other = entry.pair.candidate, entry.pair.baseline
        if mine is None or other is None:
            continue
        left, right = mine.leaf, other.leaf
        if isinstance(left, TensorLeaf) and isinstance(right, TensorLeaf) and left.dtype != right.dtype:
            yield left.dtype.removeprefix("torch."), right.dtype.removeprefix("torch.")


def _compared(part: ComparedPart) -> Iterator[ItemComparison]:
    return (entry for group in part.groups for entry in group if entry.deviation and are_tensors(entry))
