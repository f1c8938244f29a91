"""Process groups of a run: which ranks take part where a record names a group, or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchparity.communication.shares import Share
from torchparity.records import GroupLeaf
from torchparity.storage import RunPart

_MOST_DIGITS = 6  # of a job's size: a file may say anything
_DEFAULT = "0"  # torch's name of the default group


class Group(NamedTuple):
    """A process group: its ranks in their order, and what tells it from another group of the same ranks.

    Where records have its name alone its ranks are those that use it, and `is_complete` is False if some rank of the
    job was not recorded.
    """

    ranks: tuple[int, ...]
    name: str = ""
    is_complete: bool = True

    def rank_of(self, number: int) -> int | None:
        """Return the rank that has a number within the group."""
        return self.ranks[number] if 0 <= number < len(self.ranks) else None


class Groups:
    """The groups of one step, found by what the records of all its ranks say."""

    def __init__(self, parts: Sequence[RunPart], shares: Mapping[int, Sequence[Share]]) -> None:
        self.world = _world(parts)
        self._is_whole_job = len({part.rank for part in parts}) == len(self.world)
        self._known: dict[tuple[tuple[int, ...], str | None], Group] = {}
        self._has_own_names = any("world.size" in part.info.environment for part in parts)
        self._ranks_by_name: dict[str, tuple[int, ...]] = {}
        self._users: dict[str, set[int]] = defaultdict(set)
        self._users_by_ranks: dict[tuple[tuple[int, ...], str], set[int]] = defaultdict(set)
        for rank, of_rank in shares.items():
            for leaf in (share.group for share in of_rank if share.group is not None):
                name = leaf.id or ""
                self._users[name].add(rank)
                if leaf.ranks:
                    self._ranks_by_name.setdefault(name, leaf.ranks)
                    self._users_by_ranks[leaf.ranks, name].add(rank)

    def of(self, share: Share) -> Group:
        """Return the group of a share."""
        leaf = share.group
        if leaf is None or self._is_default(leaf):
            return Group(self.world)
        key = leaf.ranks, leaf.id
        if key not in self._known:
            self._known[key] = self._found(leaf)
        return self._known[key]

    def _found(self, leaf: GroupLeaf) -> Group:
        name = leaf.id or ""
        ranks = leaf.ranks or self._ranks_by_name.get(name, ())
        if not ranks:
            return Group(tuple(sorted(self._users[name])), name, self._is_whole_job)
        if leaf.ranks:  # names that are not the same on all ranks tell nothing
            users = self._users_by_ranks[leaf.ranks, name]
            everybody = set().union(*(who for (each, _), who in self._users_by_ranks.items() if each == leaf.ranks))
            name = name if users == everybody else ""
        return Group(ranks, name)

    def _is_default(self, leaf: GroupLeaf) -> bool:
        if leaf.id == _DEFAULT or (not leaf.ranks and leaf.id is None):
            return True
        # msprobe's names follow from the ranks, so that two groups of all ranks look the same.
        return leaf.ranks == self.world and (leaf.id is None or not self._has_own_names)


def _world(parts: Sequence[RunPart]) -> tuple[int, ...]:
    sizes = [part.info.environment.get("world.size", "") for part in parts]
    size = max((int(text) for text in sizes if text.isdecimal() and len(text) <= _MOST_DIGITS), default=0)
    return tuple(sorted({*range(size), *(part.rank for part in parts)}))
