"""A pair of records as the judge sees it: the tensors that count as received and as returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import INPUT_ROLES
from torchparity.comparing.pairing.records import RecordPair
from torchparity.comparing.precision.figures import MASKING
from torchparity.naming import is_module_name
from torchparity.records import Record, TensorLeaf


class JudgedRecord(msgspec.Struct, eq=False):
    """A record of both runs with the comparisons of its items.

    `deviation` is the largest of what it returned: 0 where all of it is equal, None where nobody can tell. Items that
    hold no value (raw memory, what the call overwrites) are in neither list.
    """

    name: str
    baseline_name: str | None  # None where only the candidate has the record
    direction: str
    first_row: int
    position: int  # in the order of time
    items: Sequence[ItemComparison]
    received: list[ItemComparison] = []
    returned: list[ItemComparison] = []
    deviation: float | None = 0.0
    passes_on: bool = False  # in one of the runs it returned what it received
    is_of_another_parameter: bool = False  # a call of an optimizer that pairs with that of another parameter

    @property
    def is_module(self) -> bool:
        """True where the record is a module's."""
        return is_module_name(self.name)

    @property
    def input_deviation(self) -> float:
        """The largest deviation of what it received."""
        largest = 0.0
        for entry in self.received:
            if entry.deviation and entry.deviation > largest:
                largest = entry.deviation
        return largest

    @property
    def has_equal_inputs(self) -> bool:
        """True where everything that it received is known to be equal."""
        return all(entry.deviation == 0 for entry in self.received)

    def row_of(self, comparison: ItemComparison) -> int:
        """Return the row of one of its items in the part's table."""
        return self.first_row + next(number for number, entry in enumerate(self.items) if entry is comparison)

    def short_name(self, comparison: ItemComparison) -> str:
        """Return an item's name without its record."""
        prefix = self.name if comparison.candidate is not None else self.baseline_name
        return comparison.name.removeprefix(f"{prefix}.")


class AloneRecord(msgspec.Struct, eq=False):
    """A record that only one run has."""

    judged: JudgedRecord
    record: Record
    is_candidates: bool


def are_tensors(comparison: ItemComparison) -> bool:
    """Tell whether both runs have a tensor there."""
    mine, other = comparison.pair.candidate, comparison.pair.baseline
    return (
        mine is not None
        and other is not None
        and mine.leaf.__class__ is TensorLeaf
        and other.leaf.__class__ is TensorLeaf
    )


def has_tensor(comparison: ItemComparison) -> bool:
    """Tell whether one run at least has a tensor there."""
    sides = (comparison.pair.candidate, comparison.pair.baseline)
    return any(side is not None and isinstance(side.leaf, TensorLeaf) for side in sides)


def is_whole(comparison: ItemComparison) -> bool:
    """Tell whether an item is a tensor of whole numbers or truth values."""
    side = comparison.pair.baseline
    leaf = side.leaf if side is not None else None
    return isinstance(leaf, TensorLeaf) and not leaf.dtype.startswith(("torch.float", "torch.bfloat", "torch.complex"))


def is_mask(comparison: ItemComparison) -> bool:
    """Tell whether a tensor is masked with numbers so large that they hide all others."""
    extremes = [value for side in (comparison.candidate, comparison.baseline) if side for value in side.values()[:2]]
    return any(isinstance(value, float) and not abs(value) < MASKING for value in extremes)


def judged_records(
    pairs: Sequence[RecordPair], groups: Sequence[Sequence[ItemComparison]]
) -> tuple[list[JudgedRecord], list[AloneRecord]]:
    """Return the records of both runs in the order of time, and those of one run alone.

    Gradients of parameters may stand among forward records, and belong after the last backward record.
    """
    first_rows, rows = [], 0
    for group in groups:
        first_rows.append(rows)
        rows += len(group)
    numbers = _in_order_of_time(pairs)
    both: list[JudgedRecord] = []
    alone: list[AloneRecord] = []
    for position, number in enumerate(numbers):
        mine, other = pairs[number].candidate, pairs[number].baseline
        record = mine or other
        if record is None:
            continue
        baseline_name = other.name if other is not None else None
        judged = JudgedRecord(
            record.name, baseline_name, record.direction, first_rows[number], position, groups[number]
        )
        if mine is None or other is None:
            alone.append(AloneRecord(judged, record, mine is not None))
        else:
            both.append(judged)
    return both, alone


def split_items(record: JudgedRecord, is_value: Callable[[ItemComparison], bool]) -> None:
    """Fill in what a record received and returned; `is_value` tells of an item that is not equal whether it counts."""
    received: list[ItemComparison] = []
    returned: list[ItemComparison] = []
    largest: float | None = 0.0
    for entry in record.items:
        if not are_tensors(entry) or (entry.deviation and not is_value(entry)):
            continue
        if entry.pair.role in INPUT_ROLES:
            received.append(entry)
            continue
        returned.append(entry)
        deviation = entry.deviation
        largest = None if deviation is None or largest is None else max(largest, deviation)
    record.received, record.returned, record.deviation = received, returned, largest


def _in_order_of_time(pairs: Sequence[RecordPair]) -> list[int]:
    directions = [record.direction for pair in pairs if (record := pair.candidate or pair.baseline) is not None]
    late = [number for number, direction in enumerate(directions) if direction == "parameters_grad"]
    if not late:
        return list(range(len(pairs)))
    rest = [number for number, direction in enumerate(directions) if direction != "parameters_grad"]
    last = max((place for place, number in enumerate(rest) if directions[number] == "backward"), default=len(rest) - 1)
    return rest[: last + 1] + late + rest[last + 1 :]


def is_differentiated(entry: ItemComparison) -> bool:
    """Tell whether a gradient is asked of an item, as it is of what was computed and hardly ever of data."""
    leaf = entry.baseline.leaf if entry.baseline is not None else None
    return isinstance(leaf, TensorLeaf) and bool(leaf.requires_grad)
