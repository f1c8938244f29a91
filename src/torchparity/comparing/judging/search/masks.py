"""Tensors that are masked with the smallest number of a dtype: their statistics show the mask and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord, are_tensors, is_whole
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.measuring.deviation import finite_norm
from torchparity.comparing.measuring.item_comparison import ItemComparison, NotCompared, Reason
from torchparity.comparing.measuring.numbers import is_number
from torchparity.comparing.pairing.items import Side
from torchparity.comparing.precision.figures import MASKING
from torchparity.records import TensorLeaf


class HidingMasks:
    """The records of one rank whose result is masked and was computed from what differs.

    Next to -3.4e38 the other elements are lost in every sum, so that such a result seems equal whatever they are. They
    are off by what the record received besides the mask, since filling and adding pass an error on as it is.
    """

    def __init__(self) -> None:
        self._errors: dict[int, dict[str, float]] = {}  # by step and record: the norm of the hidden difference

    def unveil(self, context: PartContext, record: JudgedRecord) -> None:
        """Put the hidden deviation in place of the one that statistics tell of what a record received."""
        errors = self._errors.get(context.step)
        if errors and any(entry.is_input and _is_masked(entry) for entry in record.items):
            record.items = [self._unveiled(context, entry, errors) for entry in record.items]

    def follow(self, context: PartContext, record: JudgedRecord) -> None:
        """Take note of a record whose result hides what it received."""
        if record.direction != "forward" or record.has_equal_inputs or not any(map(_is_masked, record.returned)):
            return
        error = sum(_error(entry) for entry in record.received)
        self._errors.setdefault(context.step, {})[record.name] = error

    def _unveiled(self, context: PartContext, entry: ItemComparison, errors: Mapping[str, float]) -> ItemComparison:
        if not entry.is_input or not _is_masked(entry):
            return entry
        hidden = [errors[maker] for maker in context.flow.producers(entry) if maker in errors]
        if not hidden:
            return entry
        norm = finite_norm(entry.baseline) if entry.baseline is not None else None
        deviation = max(hidden) / norm if norm is not None and max(hidden) < math.inf else None
        return msgspec.structs.replace(entry, outcome=NotCompared(Reason.HIDDEN), deviation=deviation)


def _error(entry: ItemComparison) -> float:
    """Return the norm of the difference of what a record received; infinite where nobody knows it."""
    if not entry.deviation or is_whole(entry):
        return 0.0 if entry.deviation == 0 else math.inf
    norm = finite_norm(entry.baseline) if entry.baseline is not None else None
    return math.inf if norm is None else entry.deviation * norm


def _is_masked(entry: ItemComparison) -> bool:
    """Tell whether statistics are all that was compared of a tensor, and a mask all that they show."""
    if entry.statistics is None or not are_tensors(entry):
        return False
    return any(_has_mask(side) for side in (entry.candidate, entry.baseline))


def _has_mask(side: Side | None) -> bool:
    leaf = side.leaf if side is not None else None
    if not isinstance(leaf, TensorLeaf) or leaf.statistics is None:
        return False
    facts = leaf.statistics
    extremes = (facts.max, facts.min) if facts.finite_max is None else (facts.finite_max, facts.finite_min)
    return any(is_number(value) and abs(value) > MASKING for value in extremes if value is not None)
