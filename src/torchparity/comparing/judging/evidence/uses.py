"""The uses of what the forward calls of one run returned, those by calls that only this run makes included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from torchparity.comparing.judging.evidence.judged_record import JudgedRecord
from torchparity.naming import OPTIMIZER, backward_of, forward_of, is_module_name, parse_record
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

    def alone_with_parameter(self, parameter: str) -> list[str]:
        """Return the calls that only this run makes of a parameter, and that gave it a gradient."""
        return [user for user in self._users_of_parameters.get(parameter, ()) if self._is_alone(user)]

    def adding_to_gradient(self, call: str, shape: tuple[int, ...]) -> str | None:
        """Return the call of this run alone that adds to the gradient of a parameter which another call received.

        It received the parameter too, or backward went once more through the other call because of it.
        """
        record = self._part.records.get(call)
        items = record.items() if record is not None else ()
        leaves = [item.leaf for item in items if item.role == "input" and isinstance(item.leaf, TensorLeaf)]
        parameters = [
            origin.name
            for leaf in leaves
            if leaf.shape == shape
            for origin in self._part.origins_of(leaf)
            if origin.kind == "parameter"
        ]
        users = [user for parameter in parameters for user in self.alone_with_parameter(parameter)]
        return next(iter(users), None) or (self._first_alone_behind(call) if call in self._gone_through_again else None)

    def _first_alone_behind(self, call: str) -> str | None:
        """Return the nearest call of this run alone that a call's result led to."""
        reached = {call: None}
        for name in (pending := [call]):
            users = [user for user in self._users.get(name, ()) if user not in reached]
            if (alone := next(filter(self._is_alone, users), None)) is not None:
                return alone
            reached |= dict.fromkeys(users)
            pending += users
        return None

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

    def _makers(self, record: Record, role: str, kind: str = "record") -> list[str]:
        return [
            origin.name
            for item in record.items()
            if item.role == role and isinstance(item.leaf, TensorLeaf)
            for origin in self._part.origins_of(item.leaf)
            if origin.kind == kind
        ]

    @cached_property
    def _gone_through_again(self) -> set[str]:
        """The calls that backward went through in this run alone."""
        alone = (name for name in self._part.records if name not in self._paired)
        return {forward_of(name) for name in alone if self._part.records[name].direction == "backward"}

    @cached_property
    def _users_of_parameters(self) -> Mapping[str, list[str]]:
        users: dict[str, list[str]] = {}
        for name, record in self._part.records.items():
            if record.direction != "forward" or is_module_name(name) or self._part.construct.get(name) == OPTIMIZER:
                continue
            for parameter in dict.fromkeys(self._makers(record, "input", "parameter")):
                users.setdefault(parameter, []).append(name)
        return users

    @cached_property
    def _users(self) -> Mapping[str, list[str]]:
        users: dict[str, list[str]] = {}
        for name, record in self._part.records.items():
            if record.direction == "forward" and not is_module_name(name):
                for maker in dict.fromkeys(self._makers(record, "input")):
                    if maker != name:
                        users.setdefault(maker, []).append(name)
        return users


class UsesOfBothRuns:
    """The same of two runs; a backward record stands for what its forward call returned, in each of them."""

    def __init__(self, candidate: RunPart, baseline: RunPart, records: Sequence[JudgedRecord]) -> None:
        mine: dict[str | None, str] = {record.name: record.name for record in records}
        other = {record.baseline_name: record.name for record in records}
        self._runs = Uses(candidate, mine), Uses(baseline, other)

    def alone(self, record: JudgedRecord) -> list[str]:
        """Return the calls of one run alone that received it."""
        return [user for uses, forward in self._of(record) for user in uses.alone(forward)]

    def paired(self, record: JudgedRecord) -> list[str]:
        """Return the calls of both runs that received it, directly or through calls of one run alone."""
        return list(dict.fromkeys(user for uses, forward in self._of(record) for user in uses.paired(forward)))

    def has_twin_alone(self, record: JudgedRecord) -> bool:
        """Tell whether one run alone makes the forward call once more."""
        return any(uses.has_twin_alone(forward) for uses, forward in self._of(record))

    def alone_with_parameter(self, parameter: str) -> str | None:
        """Return the first call of one run alone that gave a parameter a gradient."""
        return next((user for uses in self._runs for user in uses.alone_with_parameter(parameter)), None)

    def adding_to_gradient(self, makers: Sequence[JudgedRecord], shape: tuple[int, ...]) -> str | None:
        """Return the call of one run alone that adds to what backward records gave a parameter of this shape."""
        added = (uses.adding_to_gradient(call, shape) for maker in makers for uses, call in self._of(maker))
        return next(filter(None, added), None)

    def _of(self, record: JudgedRecord) -> Iterator[tuple[Uses, str]]:
        for uses, name in zip(self._runs, (record.name, record.baseline_name), strict=True):
            if name is not None:
                yield uses, forward_of(name)
