"""Which records a recording takes: by scope, list, direction and role. Numbers never depend on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Literal

from torchparity.errors import nearest

Role = Literal["input", "output"]
_FULL = re.compile(r".+\.\d+\.(forward|backward)|Module\..+\.(forward|backward)\.\d+")


class Selection:
    """Answers for one recording; a scope is a state that `takes_call` advances in execution order."""

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
        self._is_inside = not self.scope
        self._has_ended = self._is_reversed = False
        self._matched: set[str] = set()
        self._taken: set[str] = set()
        self._seen: dict[str, None] = {}

    @property
    def asked(self) -> tuple[str, ...]:
        """Every name that was asked for."""
        return (*self.scope, *self.listed, *self.stored)

    def takes_call(self, name: str, parents: Sequence[str]) -> bool:
        """Decide about a forward call and the backward that belongs to it."""
        if self.is_open:
            return True
        self._seen[name] = None
        taken = self._in_scope(name) and self._in_list(name, parents)
        if taken:
            self._taken.add(name)
        return taken

    def takes_backward(self, backward: str, forward: str) -> bool:
        return (
            not self.listed
            or backward in self.listed
            or not any(is_full(name) for name in self.listed)
            or (forward in self._taken and not any(name == forward for name in self.listed))
        )

    def names(self, record: str) -> bool:
        """Tell whether the list asks for a record that is no call, wherever it comes up."""
        return not self.scope and bool(self.listed) and self._in_list(record, ())

    def takes(self, direction: str, role: Role) -> bool:
        return (direction, role) in self._sides

    def stores(self, name: str) -> bool:
        """Decide whether a record's values are kept besides their statistics."""
        if not self.stored:
            return False
        self._seen[name] = None
        plain = name.partition("#")[0]  # the second backward through a call is kept with the first
        found = [wanted for wanted in self.stored if plain == wanted or (not is_full(wanted) and _is_in(wanted, name))]
        self._matched.update(found)
        return bool(found)

    def begin_step(self) -> None:
        self._is_inside = not self.scope
        self._has_ended = False
        self._taken.clear()

    def unmatched(self) -> list[str]:
        """Return the names that were asked for and never came up, each with the nearest that did."""
        missing = dict.fromkeys(name for name in self.asked if name not in self._matched)
        parts = {part for name in self._seen for part in name.split(".")}
        hints = {name: nearest(name, self._seen if is_full(name) else parts).strip() for name in missing}
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
        found = [wanted for wanted in self.listed if _matches(wanted, name) or wanted in parents]
        self._matched.update(found)
        return bool(found)


def is_full(name: str) -> bool:
    """Tell a record's whole name from a part of one."""
    return _FULL.fullmatch(name) is not None


def _matches(wanted: str, name: str) -> bool:
    if is_full(wanted):
        return name == wanted or name == ".forward".join(wanted.rsplit(".backward", 1))
    return _is_in(wanted, name)


def _is_in(part: str, name: str) -> bool:
    return part.lower() in name.lower()
