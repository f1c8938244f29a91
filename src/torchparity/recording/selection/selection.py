"""Selects what is recorded: by scope, list, direction and side. Numbers of calls never depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from torchparity.errors import nearest
from torchparity.naming import backward_of, forward_of, is_call_name


@dataclass(frozen=True)
class Plan:
    """The parts of one call that are recorded."""

    keeps_forward: bool
    observes_inputs: bool
    observes_outputs: bool
    keeps_values: bool  # besides their statistics
    wants_gradients: bool
    observes_received: bool  # gradients that flow in at the outputs
    observes_returned: bool  # and out at the inputs


class Selection:
    """Answers for one recording; a scope is a state that `plan` advances in execution order."""

    def __init__(
        self,
        *,
        scope: Sequence[str] = (),
        names: Sequence[str] = (),
        stored: Sequence[str] = (),
        data_mode: Sequence[str] = ("all",),
    ) -> None:
        self.scope, self.listed, self.stored = tuple(scope), tuple(names), tuple(stored)
        self.is_open = not self.scope and not self.listed  # neither leaves anything out
        modes = set(data_mode)
        everything = "all" in modes
        directions = set() if everything else modes & {"forward", "backward"}
        roles = set() if everything else modes & {"input", "output"}
        self._sides = frozenset(product(directions or ("forward", "backward"), roles or ("input", "output")))
        self.takes_forwards = not directions or "forward" in directions
        self.takes_backwards = not directions or "backward" in directions
        self.leaves_nothing_out = self.is_open and len(self._sides) == 4  # both of both directions
        self._is_inside = not self.scope
        self._has_ended = self._is_reversed = False
        self._matched: set[str] = set()
        self._taken: set[str] = set()
        self._seen: dict[str, None] = {}
        self._plans = {
            (keeps_values, wants_gradients): self._make_plan(keeps_values, wants_gradients)
            for keeps_values, wants_gradients in product((False, True), (False, True))
        }
        # The same for all calls, where nothing is left out.
        self.plan_of_all = self._plans[False, self.takes_backwards] if self.is_open and not self.stored else None

    @property
    def asked(self) -> tuple[str, ...]:
        """Every name that was asked for."""
        return (*self.scope, *self.listed, *self.stored)

    def plan(self, name: str, parents: Sequence[str]) -> Plan | None:
        """Decide about a forward call and the backward that belongs to it; None where it is left out."""
        if self.plan_of_all is not None:
            return self.plan_of_all
        if not self._takes_call(name, parents):
            return None
        return self._plans[self.stores(name), self.takes_backwards and self._takes_backward(name)]

    def _make_plan(self, keeps_values: bool, wants_gradients: bool) -> Plan:
        return Plan(
            keeps_forward=self.takes_forwards,
            observes_inputs=("forward", "input") in self._sides,
            observes_outputs=("forward", "output") in self._sides,
            keeps_values=keeps_values,
            wants_gradients=wants_gradients,
            observes_received=("backward", "input") in self._sides,
            observes_returned=("backward", "output") in self._sides,
        )

    def _takes_call(self, name: str, parents: Sequence[str]) -> bool:
        if self.is_open:
            return True
        self._seen[name] = None
        taken = self._in_scope(name) and self._in_list(name, parents)
        if taken:
            self._taken.add(name)
        return taken

    def _takes_backward(self, forward: str) -> bool:
        return (
            not self.listed
            or backward_of(forward) in self.listed
            or not any(is_call_name(name) for name in self.listed)
            or (forward in self._taken and not any(name == forward for name in self.listed))
        )

    def names(self, record: str) -> bool:
        """Tell whether the list asks for a record that is no call, wherever it comes up."""
        return not self.scope and bool(self.listed) and self._in_list(record, ())

    def stores(self, name: str) -> bool:
        """Decide whether a record's values are kept besides their statistics."""
        if not self.stored:
            return False
        self._seen[name] = None
        plain = name.partition("#")[0]  # the second backward through a call is kept with the first
        matching = [
            wanted for wanted in self.stored if plain == wanted or (not is_call_name(wanted) and _is_in(wanted, name))
        ]
        self._matched.update(matching)
        return bool(matching)

    def begin_step(self) -> None:
        self._is_inside = not self.scope
        self._has_ended = False
        self._taken.clear()

    def unmatched(self) -> list[str]:
        """Return the names that were asked for and never came up, each with the nearest that did."""
        missing = dict.fromkeys(name for name in self.asked if name not in self._matched)
        parts = {part for name in self._seen for part in name.split(".")}
        hints = {name: nearest(name, self._seen if is_call_name(name) else parts).strip() for name in missing}
        return [f"{name} ({hint})" if hint else name for name, hint in hints.items()]

    def remarks(self) -> list[str]:
        """Return what became of a scope whose last name came first."""
        if not self._is_reversed:
            return []
        first, last = self.scope[0], self.scope[-1]
        return [
            f"scope: {last} came before {first}, so all from {first} to the end of the step was recorded; swap them"
        ]

    def _in_scope(self, name: str) -> bool:
        if not self.scope:
            return True
        if name in self.scope:
            self._matched.add(name)
        if name == self.scope[0]:
            self._is_inside = True
            self._is_reversed |= self._has_ended
        inside = self._is_inside
        if name == self.scope[-1]:
            self._is_inside, self._has_ended = False, True
        return inside

    def _in_list(self, name: str, parents: Sequence[str]) -> bool:
        if not self.listed:
            return True
        matching = [wanted for wanted in self.listed if _matches(wanted, name) or wanted in parents]
        self._matched.update(matching)
        return bool(matching)


def _matches(wanted: str, name: str) -> bool:
    if is_call_name(wanted):
        return name == wanted or name == forward_of(wanted)
    return _is_in(wanted, name)


def _is_in(part: str, name: str) -> bool:
    return part.lower() in name.lower()
