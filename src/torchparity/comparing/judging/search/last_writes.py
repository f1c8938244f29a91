"""Findings about parameters that one run alone writes at the end of the last step, where no record reads them again."""

from __future__ import annotations

from collections.abc import Mapping

from torchparity.comparing.judging.evidence.judged_record import AloneRecord, JudgedRecord, are_tensors
from torchparity.comparing.judging.evidence.operators import writes_in_place
from torchparity.comparing.judging.search.context import PartContext
from torchparity.comparing.judging.verdict import Finding, Kind
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.naming import OPTIMIZER
from torchparity.records import Record, TensorLeaf


def last_write_finding(context: PartContext) -> Finding | None:
    """Return the first call of one run alone after which a parameter holds what the other run never gives it.

    Where the step before has such a call too, this step has shown what became of it.
    """
    if not context.flow.is_recorded:
        return None
    before = context.earlier.get(max(context.earlier, default=-1))
    shown = {side for side, _ in _written_alone(before)} if before is not None else set()
    for place, call in _written_alone(context).items():
        found = _finding(context, place[1], call) if place[0] not in shown and not _is_read(context, call) else None
        if found is not None:
            return found
    return None


def _written_alone(context: PartContext) -> Mapping[tuple[bool, str], AloneRecord]:
    """Return the calls without a partner that write a parameter last and change it, by run and parameter."""
    calls = {(call.is_candidates, call.record.name): call for call in context.alone}
    if not any(writes_in_place(name) for _, name in calls):
        return {}
    sides = {side: _Writes(context, is_candidates=side) for side in (True, False)}
    return {
        (side, name): calls[side, call]
        for side, writes in sides.items()
        for name, call in writes.changed_alone().items()
        if sides[not side].leaves_to_the_other(name)
    }


class _Writes:
    """The calls of one run that write parameters, in the order of time."""

    def __init__(self, context: PartContext, *, is_candidates: bool) -> None:
        self._part = context.part.candidate if is_candidates else context.part.baseline
        self._alone = {entry.record.name for entry in context.alone if entry.is_candidates == is_candidates}
        self._parameters: set[str] = set()
        self._last: dict[str, str] = {}
        self._before: dict[str, object] = {}  # what a parameter held before the calls without a partner
        self._after: dict[str, object] = {}
        for record in self._part.records.values():
            self._follow(record)

    def _follow(self, record: Record) -> None:
        received, returned = self._contents(record, "input"), self._contents(record, "output")
        self._parameters |= {*received, *returned}
        if not writes_in_place(record.name):
            return
        for name in {**received, **returned}:
            self._last[name] = record.name
            if record.name not in self._alone:
                self._before.pop(name, None)
            elif name in received:
                self._before.setdefault(name, received[name])
            self._after[name] = returned.get(name)

    def _contents(self, record: Record, role: str) -> dict[str, object]:
        return {
            origin.name: (leaf.statistics, leaf.checksum)
            for leaf in _tensors(record, role)
            for origin in self._part.origins_of(leaf)
            if origin.kind == "parameter" and origin.name
        }

    def changed_alone(self) -> dict[str, str]:
        """Return the last call on each parameter that calls without a partner leave changed."""
        return {
            name: self._last[name]
            for name, before in self._before.items()
            if self._after[name] is not None and self._after[name] != before
        }

    def leaves_to_the_other(self, parameter: str) -> bool:
        """Tell whether this run knows a parameter and has no call of its own that may write it.

        An optimizer that makes calls of its own may write parameters in its own way.
        """
        if parameter not in self._parameters or self._last.get(parameter) in self._alone:
            return False
        return not any(self._part.construct.get(name) == OPTIMIZER for name in self._alone)


def _tensors(record: Record, role: str) -> list[TensorLeaf]:
    return [item.leaf for item in record.items() if isinstance(item.leaf, TensorLeaf) and item.role == role]


def _is_read(context: PartContext, call: AloneRecord) -> bool:
    """Tell whether a record of both runs received what a call wrote, and so shows whether it matters."""
    part = context.part.candidate if call.is_candidates else context.part.baseline
    return any(
        origin.kind == "record" and origin.name == call.record.name
        for record in part.records.values()
        if not context.is_alone(record.name, is_candidates=call.is_candidates)
        for leaf in _tensors(record, "input")
        for origin in part.origins_of(leaf)
    )


def last_reader(context: PartContext, parameter: str) -> tuple[JudgedRecord, ItemComparison] | None:
    """Return the last record of both runs that received a parameter, and where."""
    for record in reversed(context.records):
        for entry in record.items:
            origins = context.flow.origins(entry) if entry.is_input and are_tensors(entry) else ()
            if any(origin.kind == "parameter" and origin.name == parameter for origin in origins):
                return record, entry
    return None


def _finding(context: PartContext, parameter: str, call: AloneRecord) -> Finding | None:
    source, name = f"parameter {parameter}", call.record.name
    if call.is_candidates:
        returned = next(item for item in call.judged.items if not item.is_input)
        return context.finding(Kind.CALL, call.judged, returned, partner=name, sources=[source])
    reader = last_reader(context, parameter)
    if reader is None:
        return None
    record, entry = reader
    said = f"{record.short_name(entry)} is {source}, which {name} writes after it in the baseline alone"
    return context.finding(Kind.CALL, record, entry, partner=name, sources=[source], explanation=said)
