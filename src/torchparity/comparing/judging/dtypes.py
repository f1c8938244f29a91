"""The dtypes in which two runs differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.records import TensorLeaf
from torchparity.text import counted

_MOST_DTYPES = 3
_FLOATING = ("torch.float", "torch.bfloat", "torch.complex")


def dtype_words(parts: Sequence[ComparedPart]) -> str:
    """Return which dtypes stand against which in how many records, "" where all are the same."""
    pairs: Counter[tuple[str, str]] = Counter()
    records, differing = 0, 0
    for part in parts:
        for group in part.groups:
            records += 1
            found = set(differing_dtypes(group))
            pairs.update(found)
            differing += bool(found)
    if not pairs:
        return ""
    said = " and ".join(f"{mine} against {other}" for (mine, other), _ in pairs.most_common(_MOST_DTYPES))
    return f"{said} in {differing:,} of {counted(records, 'record')}"


def differing_dtypes(group: Sequence[ItemComparison]) -> Iterator[tuple[str, str]]:
    """Yield the dtypes of each tensor of a record that has another in the baseline, the candidate's first."""
    for entry in group:
        mine, other = entry.pair.candidate, entry.pair.baseline
        if mine is None or other is None:
            continue
        left, right = mine.leaf, other.leaf
        if not isinstance(left, TensorLeaf) or not isinstance(right, TensorLeaf) or left.dtype == right.dtype:
            continue
        if left.dtype.startswith(_FLOATING) and right.dtype.startswith(_FLOATING):  # a mask may be of any dtype
            yield left.dtype.removeprefix("torch."), right.dtype.removeprefix("torch.")
