"""Reads the facts of a call out of the comparisons of its items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.precision.facts import CallFacts, Received, Returned
from torchparity.comparing.precision.figures import MASKING
from torchparity.errors import RecordNameError
from torchparity.naming import RecordName, parse_record
from torchparity.records import TensorLeaf, ValueLeaf

_Kind = TypeVar("_Kind", bound=Received)


def received_of(comparison: ItemComparison) -> Received | None:
    """Return a tensor that both runs have as the model takes it, None for anything else."""
    return _tensor(comparison, Received)


def returned_of(comparison: ItemComparison) -> Returned | None:
    """Return an output that both runs have as the model takes it, None for anything else."""
    return _tensor(comparison, Returned)


def call_of(
    comparisons: Sequence[ItemComparison],
    behind: Iterable[ItemComparison] = (),
    *,
    in_optimizer: bool = False,
    uses_tf32: bool = False,
) -> CallFacts:
    """Return the facts of the call whose items are `comparisons`; `behind` are the items of its forward record."""
    try:
        record = parse_record(comparisons[0].record)
    except RecordNameError:  # a name that somebody wrote by hand
        record = RecordName("", "", None, "forward")
    is_backward = comparisons[0].direction == "backward"
    inputs = [entry for entry in behind if entry.is_input] if is_backward else []
    return CallFacts(
        operator=record.module_class or record.operator,
        direction="backward" if is_backward else "forward",
        is_module=record.is_module,
        in_optimizer=in_optimizer,
        arguments=_arguments(inputs or comparisons),
        uses_tf32=uses_tf32,
        forward_received=[part for entry in inputs if (part := received_of(entry)) is not None],
    )


def _tensor(comparison: ItemComparison, kind: type[_Kind]) -> _Kind | None:
    mine, other = comparison.candidate, comparison.baseline
    if mine is None or other is None:
        return None
    left, right = mine.leaf, other.leaf
    if not isinstance(left, TensorLeaf) or not isinstance(right, TensorLeaf):
        return None
    deviation = comparison.deviation
    largest, smallest, mean, norm = _finite_values(right)
    is_known = deviation is not None and deviation < math.inf
    if deviation and comparison.statistics is not None and norm is not None and norm > MASKING:
        is_known = False
    return kind(
        name=mine.name[len(comparison.record) + 1 :],
        dtype=left.dtype,
        baseline_dtype=right.dtype,
        shape=right.shape,
        norm=norm,
        largest=None if largest is None or smallest is None else max(abs(largest), abs(smallest)),
        mean=mean,
        deviation=deviation if is_known else None,
        is_estimated=comparison.metrics is None and bool(deviation),
    )


def _finite_values(leaf: TensorLeaf) -> tuple[float | None, float | None, float | None, float | None]:
    """Return max, min, mean and norm of the finite elements, None where a run has none of them."""
    facts = leaf.statistics
    if facts is None:
        return None, None, None, None
    if facts.inf_count or facts.nan_count or facts.negative_inf_count:
        return facts.finite_max, facts.finite_min, facts.finite_mean, facts.finite_norm
    return facts.max, facts.min, facts.mean, facts.norm


def _arguments(comparisons: Iterable[ItemComparison]) -> dict[str, float | str]:
    """Return the numbers and words that the baseline was called with, by the item's name."""
    found: dict[str, float | str] = {}
    for entry in comparisons:
        side = entry.baseline
        if side is None or not entry.is_input or not isinstance(side.leaf, ValueLeaf):
            continue
        value = side.leaf.value
        if isinstance(value, (bool, int, float, str)):
            found[f"input.{side.name.rpartition('.input.')[2]}"] = value
    return found
