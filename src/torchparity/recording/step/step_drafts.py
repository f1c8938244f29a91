"""The drafts of one step: each name once, in the order in which they were complete."""

from __future__ import annotations

import itertools
from operator import attrgetter

from torchparity.recording.step.drafts import Draft


class NameTakenError(Exception):
    """A name is unique in a step: no reader could tell two records apart."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the step has a record {name[:200]} already; the second is left out")


class StepDrafts:
    """Collects the drafts of a step, and the parent of each; its user holds a lock."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []
        self._parents: dict[str, str | None] = {}
        self._moments = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._drafts)

    def __contains__(self, name: str) -> bool:
        return name in self._parents

    def add(self, draft: Draft, parent: str | None) -> None:
        """Add a draft, which is complete for now."""
        if draft.name in self._parents:
            raise NameTakenError(draft.name)
        self._drafts.append(draft)
        self._parents[draft.name] = parent
        self.complete(draft)

    def complete(self, draft: Draft) -> None:
        """Let a draft come behind those that were complete before: a gradient was added to it."""
        draft.moment = next(self._moments)

    def take(self) -> tuple[list[Draft], dict[str, str | None]]:
        """Return the drafts in order and the parent of each, and begin anew."""
        drafts, self._drafts = sorted(self._drafts, key=attrgetter("moment")), []
        parents, self._parents = self._parents, {}
        return drafts, parents
