"""The uses of what the forward calls of one run returned, those by calls that only this run makes included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from torchparity.naming import backward_of, is_module_name, parse_record
from torchparity.records import Record, TensorLeaf
from torchparity.storage import RunPart


class Uses:
    """The receivers of what a run's forward calls returned; `paired` has the candidate's name of each paired record."""

    def __init__(self, part: RunPart, paired: Mapping[str | None, str]) -> None:
        self._part, self._paired = part, paired

    def alone(self, call: str) -> list[str]:
        """Return the calls that only this run makes of a call's result, and that gave it a gradient."""
        return [user for user in self._users.get(call, ()) if self._is_alone(user)]

    def paired(self, call: str) -> list[str]:
        """Return the calls of both runs that received a call's result, directly or from calls of this run alone.

        The names are the candidate's.
        """
        found: dict[str, None] = {}
        pending, seen = [call], {call}
        while pending:
            for user in self._users.get(pending.pop(), ()):
                if user in self._paired:
                    found[self._paired[user]] = None
                elif user not in seen:
                    seen.add(user)
                    pending.append(user)
        return list(found)

    def has_twin_alone(self, call: str) -> bool:
        """Tell whether this run alone makes another call of the same function with the same tensors."""
        record = self._part.records.get(call)
        makers = self._makers(record, "input") if record is not None else []
        rivals = (user for maker in makers[:1] for user in self._users.get(maker, ()) if user != call)
        return any(
            self._makers(self._part.records[rival], "input") == makers
            and parse_record(rival).operator == parse_record(call).operator
            and self._is_alone(rival)
            for rival in rivals
        )

    def _is_alone(self, call: str) -> bool:
        record = self._part.records[call]
        if call in self._paired or record.is_recompute or backward_of(call) not in self._part.records:
            return False
        return any(call == maker for maker in self._makers(record, "output"))

    def _makers(self, record: Record, role: str) -> list[str]:
        return [
            origin.name
            for item in record.items()
            if item.role == role and isinstance(item.leaf, TensorLeaf)
            for origin in self._part.origins_of(item.leaf)
            if origin.kind == "record"
        ]

    @cached_property
    def _users(self) -> Mapping[str, list[str]]:
        users: dict[str, list[str]] = {}
        for name, record in self._part.records.items():
            if record.direction == "forward" and not is_module_name(name):
                for maker in dict.fromkeys(self._makers(record, "input")):
                    if maker != name:
                        users.setdefault(maker, []).append(name)
        return users
