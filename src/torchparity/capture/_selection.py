"""Which records a recording takes: by scope, list, direction and role. Numbers never depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Role = Literal["input", "output"]


class Selection:
    """Answers for one recording; a scope is a state that `takes_call` advances in execution order."""

    def __init__(
        self, *, scope: Sequence[str] = (), names: Sequence[str] = (), data_mode: Sequence[str] = ("all",)
    ) -> None:
        self._scope, self._names = tuple(scope), tuple(names)
        modes = set(data_mode)
        everything = "all" in modes
        self._directions = (
            modes & {"forward", "backward"} if modes & {"forward", "backward"} and not everything else None
        )
        self._roles = modes & {"input", "output"} if modes & {"input", "output"} and not everything else None
        self._is_inside = not self._scope
        self._matched: set[str] = set()
        self._taken: set[str] = set()

    def takes_call(self, name: str, parents: Sequence[str]) -> bool:
        """Decide about a forward call and the backward that belongs to it."""
        taken = self._in_scope(name) and self._in_list(name, parents)
        if taken:
            self._taken.add(name)
        return taken

    def takes_backward(self, backward: str, forward: str) -> bool:
        return (
            not self._names
            or backward in self._names
            or not any(_is_full(name) for name in self._names)
            or (forward in self._taken and not any(name == forward for name in self._names))
        )

    def takes(self, name: str, direction: str, role: Role) -> bool:
        return self.takes_direction(direction) and (self._roles is None or role in self._roles)

    def takes_direction(self, direction: str) -> bool:
        return self._directions is None or direction in self._directions

    def begin_step(self) -> None:
        self._is_inside = not self._scope
        self._taken.clear()

    def unmatched(self) -> list[str]:
        """Return the names that were asked for and never came up."""
        return [name for name in (*self._scope, *self._names) if name not in self._matched]

    def _in_scope(self, name: str) -> bool:
        if not self._scope:
            return True
        if name in self._scope:
            self._matched.add(name)
        if name == self._scope[0]:
            self._is_inside = True
        inside = self._is_inside
        if name == self._scope[-1]:
            self._is_inside = False
        return inside

    def _in_list(self, name: str, parents: Sequence[str]) -> bool:
        if not self._names:
            return True
        found = [wanted for wanted in self._names if _matches(wanted, name) or wanted in parents]
        self._matched.update(found)
        return bool(found)


def _is_full(name: str) -> bool:
    return name.endswith((".forward", ".backward")) or name.startswith("Module.")


def _matches(wanted: str, name: str) -> bool:
    if _is_full(wanted):
        return name == wanted or name == wanted.replace(".backward", ".forward")
    return wanted.lower() in name.lower()
