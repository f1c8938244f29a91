"""The share of two runs that was compared: records of one alone, and runs with nothing to compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from torchparity.comparing.judging.figures import FEWEST_RECORDS_OF_A_MODEL, SMALLEST_SHARE_OF_ONE_MODEL
from torchparity.comparing.judging.part import ComparedPart
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.naming import OPTIMIZER
from torchparity.records import Leaf, TensorLeaf
from torchparity.text import counted


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what was paired and compared, and of what was not."""

    has_compared: bool
    paired: int
    unpaired_records: int = 0
    unpaired_parts: int = 0
    unreadable_rows: int = 0
    rows_by_statistics: int = 0  # whose values cannot be read, in runs of values
    optimizer_alone: int = 0  # records of one run alone that an optimizer made
    is_foreach_once: bool = False  # True where an optimizer of one run alone calls torch._foreach functions

    @property
    def is_of_another_model(self) -> bool:
        """True where so few records pair that the runs cannot be of one model."""
        records = self.paired + self.unpaired_records
        return records >= FEWEST_RECORDS_OF_A_MODEL and self.paired < SMALLEST_SHARE_OF_ONE_MODEL * records

    def why_not(self) -> str:
        """Return why the runs cannot be compared, "" where they can."""
        if not self.paired:
            return "they have no record in common"
        if self.has_compared:
            return ""
        return f"there are {self._unread}" if self.unreadable_rows else "their common records hold nothing to compare"

    def left_out(self) -> str:
        """Return in a clause what could not be compared; "" where everything was."""
        where = ", all in the optimizer," if self.unpaired_records == self.optimizer_alone else ""
        records = f"{counted(self.unpaired_records, 'record')} of one run alone{where}"
        left_out = [records] if self.unpaired_records else []
        if self.unpaired_parts:
            word = "ranks or steps" if self.unpaired_parts > 1 else "rank or step"
            left_out.append(f"{self.unpaired_parts} {word} of one run alone")
        left_out += [self._unread] if self.unreadable_rows else []
        not_compared = [f"{' and '.join(left_out)} could not be compared"] if left_out else []
        return ", and ".join([*not_compared, *self._told_by_statistics])

    def ending(self) -> str:
        """Return the same as the end of a sentence."""
        left_out = self.left_out()
        return f"; {left_out}" if left_out else ""

    def unread(self) -> list[str]:
        """Return a sentence on data that could not be read, which a finding does not tell; empty where all was."""
        return [*([f"{self._unread} could not be compared"] if self.unreadable_rows else []), *self._told_by_statistics]

    @property
    def is_all_read(self) -> bool:
        """True where all data that a run has could be read."""
        return not (self.unreadable_rows or self.rows_by_statistics)

    @property
    def _told_by_statistics(self) -> list[str]:
        if not self.rows_by_statistics:
            return []
        rows = f"{counted(self.rows_by_statistics, 'row')} whose values are missing or unreadable in one run"
        return [f"{rows} {'was' if self.rows_by_statistics == 1 else 'were'} compared by statistics alone"]

    @property
    def _unread(self) -> str:
        return f"{counted(self.unreadable_rows, 'row')} whose data is missing or unreadable in one run"


def has_compared(comparisons: Iterable[ItemComparison]) -> bool:
    """Tell whether there was anything to compare: a tensor, where there are any; equal arguments alone say little."""
    has_arguments = has_tensors = False
    for comparison in comparisons:
        if _are_tensors(comparison):
            has_tensors = True
            if comparison.deviation is not None:
                return True
        elif comparison.deviation is not None:
            has_arguments = True
    return has_arguments and not has_tensors


def is_held_once(comparison: ItemComparison) -> bool:
    """Tell whether one run has something of a tensor to compare and the other nothing."""
    mine, other = comparison.pair.candidate, comparison.pair.baseline
    if mine is None or other is None:
        return False
    left, right = mine.leaf, other.leaf
    if left.__class__ is right.__class__ is TensorLeaf and None not in (left.statistics, right.statistics):
        return False  # nearly every pair
    if _holds_something(left) == _holds_something(right):
        return False
    return _are_tensors(comparison)


def optimizer_calls_alone(parts: Iterable[ComparedPart]) -> tuple[list[str], list[str]]:
    """Return the calls of optimizers that only the candidate makes, and those that only the baseline makes."""
    mine: list[str] = []
    other: list[str] = []
    for part in parts:
        for pair in part.pairs:
            if pair.how != "unmatched" or pair.is_recompute:
                continue
            if pair.candidate is not None and part.parents.get(pair.candidate.name) == OPTIMIZER:
                mine.append(pair.candidate.name)
            elif pair.baseline is not None and part.baseline.construct.get(pair.baseline.name) == OPTIMIZER:
                other.append(pair.baseline.name)
    return mine, other


def has_foreach(records: Sequence[str]) -> bool:
    """Tell whether any of the records is of a function that takes lists of tensors."""
    return any("._foreach_" in name for name in records)


def _are_tensors(comparison: ItemComparison) -> bool:
    sides = comparison.candidate, comparison.baseline
    return all(side is not None and isinstance(side.leaf, TensorLeaf) and side.leaf.numel for side in sides)


def _holds_something(leaf: Leaf) -> bool:
    return isinstance(leaf, TensorLeaf) and (
        leaf.statistics is not None or leaf.checksum is not None or leaf.data_name is not None
    )
