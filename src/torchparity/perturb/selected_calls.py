"""Calls that are perturbed: those asked for by name, and of each API no more in a step than allowed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from torchparity.calls import Call
from torchparity.errors import nearest
from torchparity.naming import forward_of, is_call_name
from torchparity.ops import Op, is_in_a_name_of_torch, nearest_function


class SelectedCalls:
    """`scope` are whole names, `listed` parts of names; with neither, every call. `most` is -1 for no limit.

    `step` says the number of the step in hand.
    """

    def __init__(self, scope: Sequence[str], listed: Sequence[str], most: int, step: Callable[[], int]) -> None:
        self._scope = {forward_of(name): name for name in scope}
        self._listed: dict[str, list[str]] = {}  # texts as they were asked for, by how they are looked for
        for text in listed:
            self._listed.setdefault((forward_of(text) if is_call_name(text) else text).lower(), []).append(text)
        self._asked, self.most = (*scope, *listed), most
        self._number_of_step, self._beyond = step, Counter[int]()  # calls that were one too many, by step
        self._matched: set[str] = set()
        self._functions: dict[str, None] = {}  # that were called, by their name and its last part
        self._seen: dict[str, None] = {}
        self._step, self._taken = -1, Counter[tuple[str, bool]]()

    @property
    def is_narrowed(self) -> bool:
        """True where calls were asked for by name."""
        return bool(self._asked)

    def may_take(self, op: Op) -> bool:
        """Tell whether a call of a function may be one of them."""
        self._functions[op.name] = self._functions[op.name.rpartition(".")[2]] = None
        if self._scope:
            return any(name.startswith(f"{op.name}.") for name in self._scope)
        return not self._listed or any(_may_be_in(text, op.name.lower()) for text in self._listed)

    def takes(self, call: Call) -> bool:
        """Tell whether a call is to be perturbed, and count it."""
        name = call.name.partition("#")[0]
        if not self._is_asked_for(name):
            return False
        if self._step != call.step:
            self._step, self._taken = call.step, Counter()
        counted = (call.op.name, call.is_recompute)  # a forward that is done again is taken as the first was
        if 0 <= self.most <= self._taken[counted]:
            self._beyond[self._number_of_step()] += 1
            return False
        self._taken[counted] += 1
        return True

    def give_back(self, call: Call) -> None:
        """Count a call that was taken no longer: it could not be perturbed, and another may come in its place."""
        if self._step == call.step:
            self._taken[call.op.name, call.is_recompute] -= 1

    @property
    def beyond_most(self) -> int:
        """The number of calls that were one too many in their step."""
        return self._beyond.total()

    def take_back(self, step: int | None = None) -> None:
        """Count the calls of a step, or of all, no longer."""
        for each in list(self._beyond) if step is None else [step]:
            self._beyond.pop(each, None)

    def unmatched(self) -> list[str]:
        """Return the names that were asked for and never came up, each with the nearest that did or could."""
        missing = [name for name in self._asked if name not in self._matched]
        hints = {name: self._nearest_to(name).strip() for name in dict.fromkeys(missing)}
        return [f"{name} ({hint})" if hint else name for name, hint in hints.items()]

    def doubtful(self, custom: Iterable[str]) -> Iterator[str]:
        """Yield a sentence for each part of names that no API of torch has, nor any of `custom`, but nearly so."""
        for text, (asked, *_) in self._listed.items():
            if (hint := nearest_function(_function_in(text))) and not any(text in name.lower() for name in custom):
                yield f"free_benchmark.list: no API of torch has {asked!r} in its name.{hint}"

    def _nearest_to(self, name: str) -> str:
        text = _function_in(name if name in self._scope.values() else name.lower())
        if is_in_a_name_of_torch(text):
            return ""  # it is spelt right, and was not called
        return nearest_function(text) or nearest(name, (*self._seen, *self._functions))

    def _is_asked_for(self, name: str) -> bool:
        if not self._asked:
            return True
        self._seen[name] = None
        if name in self._scope:
            self._matched.add(self._scope[name])
            return True
        matching = [asked for text, asked in self._listed.items() if text in name.lower()]
        for spellings in matching:
            self._matched.update(spellings)
        return bool(matching)


def _function_in(text: str) -> str:
    """Return the part of a text that is of the function's name, without the number of a call and what follows it."""
    return re.sub(r"\.\d.*$", "", "" if text.isdecimal() or text in "forward" else text)


def _may_be_in(text: str, function: str) -> bool:
    """Tell whether a text may be in the name of a call of a function: it may go on into the number."""
    return text in function or "." in text or text.isdecimal() or text in "forward"
