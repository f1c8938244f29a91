"""The records that a finding explains: what differs there follows from what differs before."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.comparing.judging.search.context import PartContext
from torchparity.naming import backward_of, forward_of


class TaintedRecords:
    """The records of one rank that a finding explains, by step."""

    def __init__(self) -> None:
        self._names: dict[int, set[str]] = {}

    @property
    def has_any(self) -> bool:
        """True where a finding explains anything."""
        return bool(self._names)

    def has_any_of(self, step: int) -> bool:
        """Tell whether a finding explains a record of a step."""
        return step in self._names

    def add(self, step: int, records: Iterable[str]) -> None:
        """Take note of records that a finding explains."""
        self._names.setdefault(step, set()).update(records)

    def explains(self, context: PartContext, record: JudgedRecord) -> bool:
        """Tell whether a finding explains a record, or what it received."""
        if not self._names:
            return False
        if record.name in self._names.get(context.step, ()):
            return True
        if not context.flow.is_recorded:
            return record.input_deviation > 0 or (not record.received and record.direction != "forward")
        if record.direction == "backward":
            return self._explains_gradient(context, record)
        for entry in record.received or record.returned:
            if entry.deviation == 0:
                continue
            makers = [origin for origin in context.flow.origins(entry) if origin.kind in ("record", "earlier")]
            if not makers and record.direction != "forward":
                return True
            for origin in makers:
                step = context.step if origin.kind == "record" else origin.step
                if step is not None and origin.name in self._names.get(step, ()):
                    return True
        return False

    def _explains_gradient(self, context: PartContext, record: JudgedRecord) -> bool:
        if _has_other_forward(context, record):
            return True
        names = self._names.get(context.step)
        if names is None:
            return False
        forward = forward_of(record.name)
        through_others = context.uses.paired(record) if context.has_gradients_alone else ()
        users = (*context.flow.consumers(forward), *through_others)
        return forward in names or any(backward_of(user) in names for user in users)


def _has_other_forward(context: PartContext, record: JudgedRecord) -> bool:
    """Tell whether the forward call of a backward record is infinitely off: its gradient is computed from that."""
    forward = context.by_name.get(forward_of(record.name))
    return forward is not None and any(entry.deviation == math.inf for entry in (*forward.received, *forward.returned))
