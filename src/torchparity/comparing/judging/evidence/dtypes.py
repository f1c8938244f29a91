"""The dtypes in which two runs differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.rounding import unit_of
from torchparity.comparing.pairing.items import ItemPair
from torchparity.records import TensorLeaf
from torchparity.text import counted

_MOST_DTYPES = 3
_FLOATING = ("torch.float", "torch.bfloat", "torch.complex")


class DifferingDtypes(msgspec.Struct, frozen=True):
    """The number of a part's records with tensors of other dtypes, and the dtypes that stand against each other."""

    pairs: Counter[tuple[str, str]]
    differing: int
    records: int
    first: str = ""  # of those records


def differing_dtypes(groups: Sequence[Sequence[ItemComparison]]) -> DifferingDtypes:
    """Count the dtypes that differ in the records of a part."""
    pairs: Counter[tuple[str, str]] = Counter()
    differing, first = 0, ""
    for group in groups:
        found = set(_of_record(group))
        if found:
            pairs.update(found)
            differing, first = differing + 1, first or group[0].pair.record
    return DifferingDtypes(pairs, differing, len(groups), first)


def dtype_words(parts: Iterable[DifferingDtypes]) -> str:
    """Return which dtypes stand against which in how many records, and in which first; "" where all are the same."""
    pairs: Counter[tuple[str, str]] = Counter()
    records, differing, first = 0, 0, ""
    for part in parts:
        pairs.update(part.pairs)
        first = first or part.first
        records, differing = records + part.records, differing + part.differing
    if not pairs:
        return ""
    said = " and ".join(f"{mine} against {other}" for (mine, other), _ in pairs.most_common(_MOST_DTYPES))
    return f"{said} in {differing} of {counted(records, 'record')}, first {first}"


def _of_record(group: Sequence[ItemComparison]) -> Iterator[tuple[str, str]]:
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


def coarser_unit(pair: ItemPair) -> float:
    """Return the unit roundoff of the coarser of two dtypes."""
    sides = (pair.candidate, pair.baseline)
    return max(unit_of(side.leaf.dtype) for side in sides if side is not None and isinstance(side.leaf, TensorLeaf))
