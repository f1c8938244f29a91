"""The rounding that is expected of a record's outputs, from what the record received."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torchparity.comparing.judging.judged_record import JudgedRecord, are_tensors
from torchparity.comparing.judging.operators import may_use_tf32, operator_of
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.measuring.numbers import is_number
from torchparity.comparing.pairing.items import Side
from torchparity.comparing.precision import CallFacts, Expectation, Received, Returned, expected
from torchparity.naming import OPTIMIZER, forward_of
from torchparity.records import PairMetrics, TensorLeaf, ValueLeaf

_MEAN, _NORM = 2, 3  # among the values of a side


class Expectations:
    """Asks the model of rounding about records of one part."""

    def __init__(
        self, records: Mapping[str, JudgedRecord], parents: Mapping[str, str | None], *, uses_tf32: bool
    ) -> None:
        self._records, self._parents, self._uses_tf32 = records, parents, uses_tf32

    def of(self, record: JudgedRecord, output: ItemComparison) -> Expectation:
        """Return what rounding explains of an output's deviation."""
        received = [_received(record, entry) for entry in record.received]
        return expected(_returned(record, output), received, self._call(record))

    def _call(self, record: JudgedRecord) -> CallFacts:
        forward: Sequence[Received] = ()
        caller = record
        if record.direction == "backward":
            caller = self._records.get(forward_of(record.name), record)
            forward = [_received(caller, entry) for entry in _tensors(caller)] if caller is not record else ()
        return CallFacts(
            operator=operator_of(record.name),
            direction="backward" if record.direction == "backward" else "forward",
            is_module=record.is_module,
            in_optimizer=self._parents.get(record.name) == OPTIMIZER,
            arguments=_numbers(caller),
            uses_tf32=self._uses_tf32 and may_use_tf32(record.name),
            forward_received=forward,
        )


def _tensors(record: JudgedRecord) -> Sequence[ItemComparison]:
    """Return the tensors that a record received; one whose items are all equal was not looked at."""
    return record.received or [entry for entry in record.items if entry.is_input and are_tensors(entry)]


def _numbers(record: JudgedRecord) -> dict[str, float | str]:
    """Return the numbers and texts that the baseline's call was given, by item."""
    numbers: dict[str, float | str] = {}
    for entry in record.items:
        leaf = entry.baseline.leaf if entry.is_input and entry.baseline is not None else None
        if isinstance(leaf, ValueLeaf) and isinstance(leaf.value, (bool, int, float, str)):
            numbers[record.short_name(entry)] = leaf.value
    return numbers


def _received(record: JudgedRecord, entry: ItemComparison) -> Received:
    return Received(**_facts(record, entry))


def _returned(record: JudgedRecord, entry: ItemComparison) -> Returned:
    return Returned(**_facts(record, entry), mean=_number(entry.baseline, _MEAN))


def _facts(record: JudgedRecord, entry: ItemComparison) -> dict[str, Any]:
    mine, other = entry.candidate, entry.baseline
    leaf = other.leaf if other is not None else None
    mine_leaf = mine.leaf if mine is not None else None
    largest = [abs(value) for place in (0, 1) if (value := _number(other, place)) is not None]
    return {
        "dtype": mine_leaf.dtype if isinstance(mine_leaf, TensorLeaf) else "",
        "baseline_dtype": leaf.dtype if isinstance(leaf, TensorLeaf) else "",
        "shape": leaf.shape if isinstance(leaf, TensorLeaf) else (),
        "norm": _number(other, _NORM),
        "largest": max(largest, default=None),
        "deviation": entry.deviation,
        "name": record.short_name(entry),
        "is_estimated": not isinstance(entry.outcome, PairMetrics),
    }


def _number(side: Side | None, place: int) -> float | None:
    value: Any = side.values()[place] if side is not None else None
    if not is_number(value) or not math.isfinite(value):
        return None
    return float(abs(value) if place == _NORM else value)
