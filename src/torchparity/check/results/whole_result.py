"""The result file as a whole: with what an interrupted check had left in it, and why calls were skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchparity.check.judging import Status, join
from torchparity.check.results.rows import RESULT_HEADER, read_rows
from torchparity.errors import RecordNameError, nearest
from torchparity.naming import forward_of_call, parse_record
from torchparity.ops import is_function_of_torch
from torchparity.text import counted

_MOST_SKIPS = 3
_STATUSES = frozenset(map(str, Status))
_BY_THE_LISTS = "in black list or not in white list"


@dataclass(frozen=True)
class WholeResult:
    """The rows of a result file."""

    rows: Sequence[Sequence[str]]

    @property
    def counts(self) -> Counter[str]:
        """The number of calls of each status, the worse of both directions."""
        return Counter(str(_status(row)) for row in self.rows)

    def skips(self) -> list[str]:
        """Return sentences on calls that were skipped, a few of them."""
        skipped = [row for row in self.rows if _status(row) is Status.SKIP]
        listed = [row for row in skipped if _BY_THE_LISTS in row[3]]
        others = [row for row in skipped if _BY_THE_LISTS not in row[3]]
        said = [f"SKIP: {row[0]}: {row[3]}" for row in others[:_MOST_SKIPS]]
        said += [f"and {counted(len(others) - _MOST_SKIPS, 'more call')} skipped."] if len(others) > _MOST_SKIPS else []
        return said + ([f"SKIP: {counted(len(listed), 'call')} left out by the lists."] if listed else [])

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return a sentence for each name of a white list that no call has."""
        return [f"no call is named {name!r}.{hint}" for name, hint in self._missing(names)]

    def misspelt(self, names: Iterable[str]) -> list[str]:
        """Return a sentence for each name that no call has, but nearly so.

        Not where torch has it, as relu where there is a gelu: a list for many runs names other APIs.
        """
        doubtful = [(name, hint) for name, hint in self._missing(names) if hint and not is_function_of_torch(name)]
        return [f"no call is named {name!r}.{hint}" for name, hint in doubtful]

    def _missing(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """Return the names that no call has, each with the nearest in words."""
        there = {name for row in self.rows for name in _names(row[0])}
        return [(name, nearest(name, there)) for name in names if name not in there]


def read_whole(result: Path) -> WholeResult:
    """Return what a result file holds."""
    return WholeResult(read_rows(result, RESULT_HEADER))


def _status(row: Sequence[str]) -> Status:
    return join(Status(word) for word in row[1:3] if word in _STATUSES) or Status.SKIP


def _names(call: str) -> set[str]:
    """Return the names by which a list may mean a call: its operator, its API and itself."""
    try:
        record = parse_record(forward_of_call(call))
    except RecordNameError:
        return {call}
    return {record.operator, record.family, call}
