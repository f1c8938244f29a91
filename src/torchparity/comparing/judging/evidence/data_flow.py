"""The data flow of one part: who made what a record received, as the runs recorded it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from torchparity.comparing.judging.evidence.judged_record import AloneRecord, JudgedRecord, are_tensors
from torchparity.comparing.measuring.item_comparison import ItemComparison
from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.records import Origin, TensorLeaf
from torchparity.storage import RunPart

_UNTOLD = ("unknown",)


class DataFlow:
    """Producers and consumers of tensors, by the names that the candidate's records have.

    A run that tells none of it (msprobe's, an older one) is matched by content: an input that an earlier record of the
    baseline returned with the same statistics is taken for that record's output. `is_recorded` tells the two apart.
    """

    def __init__(self, candidate: RunPart, baseline: RunPart, records: Sequence[JudgedRecord]) -> None:
        self._candidate, self._baseline = candidate, baseline
        self._records = records
        self.by_name: Mapping[str, JudgedRecord] = {record.name: record for record in records}
        self._candidate_name = {record.baseline_name: record.name for record in records}
        self._made_alone: set[object] | None = None
        self.is_recorded = candidate.tells_origins and baseline.tells_origins

    def origins(self, entry: ItemComparison) -> tuple[Origin, ...]:
        """Return who made an item: as the candidate tells, else the baseline; () where neither does."""
        mine = self._told(self._candidate, entry.candidate)
        if mine and mine[0].kind not in _UNTOLD:
            return mine
        other = self._told(self._baseline, entry.baseline)
        return tuple(map(self._renamed, other)) or mine

    def is_told_by_candidate(self, entry: ItemComparison) -> bool:
        """Tell whether the candidate itself says who made an item; names of earlier steps are the teller's."""
        mine = self._told(self._candidate, entry.candidate)
        return bool(mine) and mine[0].kind not in _UNTOLD

    def baseline_origins(self, entry: ItemComparison) -> tuple[Origin, ...]:
        """Return who made an item as the baseline tells, by the baseline's names."""
        return self._told(self._baseline, entry.baseline)

    def producers(self, entry: ItemComparison) -> list[str]:
        """Return the records of this step that made an item."""
        told = [origin.name for origin in self.origins(entry) if origin.kind == "record"]
        if told or self.is_recorded:
            return told
        maker = self._makers_by_content.get(content_of(entry.pair))
        return [maker] if maker is not None else []

    def is_uninitialised(self, entry: ItemComparison) -> bool:
        """Tell whether an item is, or in parts may be, memory that nobody has written."""
        return any(origin.kind == "uninitialised" for origin in self.origins(entry))

    def consumers(self, record: str) -> Sequence[str]:
        """Return the forward records that received what a forward record returned."""
        return self._consumers.get(record, ())

    def users_of_parameter(self, name: str) -> Sequence[str]:
        """Return the forward records that received a parameter."""
        return self._users.get(name, ())

    def was_computed_alone(self, entry: ItemComparison, alone: Sequence[AloneRecord]) -> bool:
        """Tell whether a record that only the baseline has returned the same content."""
        if self._made_alone is None:
            items = (item for record in alone if not record.is_candidates for item in record.judged.items)
            self._made_alone = {content_of(item.pair) for item in items if not item.is_input}
        return content_of(entry.pair) in self._made_alone

    def _told(self, part: RunPart, side: Side | None) -> tuple[Origin, ...]:
        return part.origins_of(side.leaf) if side is not None and isinstance(side.leaf, TensorLeaf) else ()

    def _renamed(self, origin: Origin) -> Origin:
        name = self._candidate_name.get(origin.name) if origin.kind == "record" else None
        return Origin("record", name) if name is not None else origin

    def _inputs(self) -> Iterable[tuple[JudgedRecord, ItemComparison]]:
        return (
            (record, entry)
            for record in self._records
            if record.direction == "forward"
            for entry in record.items
            if entry.is_input and are_tensors(entry)
        )

    @cached_property
    def _consumers(self) -> Mapping[str, list[str]]:
        consumers: dict[str, list[str]] = {}
        for record, entry in self._inputs():
            for producer in self.producers(entry):
                if producer != record.name:
                    consumers.setdefault(producer, []).append(record.name)
        return consumers

    @cached_property
    def _users(self) -> Mapping[str, list[str]]:
        users: dict[str, list[str]] = {}
        for record, entry in self._inputs():
            for origin in self.origins(entry):
                if origin.kind == "parameter":
                    users.setdefault(origin.name, []).append(record.name)
        return users

    @cached_property
    def _makers_by_content(self) -> Mapping[object, str]:
        makers: dict[object, str] = {}
        for record in self._records:
            for entry in record.items:
                if not entry.is_input and are_tensors(entry):
                    makers.setdefault(content_of(entry.pair), record.name)
        return makers


def content_of(pair: ItemPair) -> object:
    """Return what tells one recorded tensor of the baseline from another."""
    leaf = pair.baseline.leaf if pair.baseline is not None else None
    if not isinstance(leaf, TensorLeaf):
        return None
    return leaf.shape, leaf.checksum, leaf.statistics if leaf.statistics is not None else leaf.stored_in
