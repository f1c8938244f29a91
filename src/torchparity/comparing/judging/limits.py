"""The limits that a user sets to the judge: what to ignore, from where on to look, how much to allow."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from torchparity.errors import RecordNameError
from torchparity.naming import parse_record


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns are names of records, paths of modules or shell patterns of either.

    What `ignore` names is taken for expected, with all that follows from it; records up to the one that `after` names
    are not judged; `tolerance` replaces the deviation that rounding is expected to explain.
    """

    ignore: tuple[str, ...] = ()
    after: str | None = None
    tolerance: float | None = None

    def ignores(self, record: str, parents: Mapping[str, str | None]) -> bool:
        """Tell whether a record is one that the user expects to differ."""
        return any(matches(pattern, record, parents) for pattern in self.ignore)


def matches(pattern: str, record: str, parents: Mapping[str, str | None]) -> bool:
    """Tell whether a pattern names a record, or a module that it was called in."""
    name: str | None = record
    seen: set[str] = set()
    while name is not None and name not in seen:
        if fnmatchcase(name, pattern) or fnmatchcase(_path(name), pattern):
            return True
        seen.add(name)
        name = parents.get(name)
    return False


def _path(name: str) -> str:
    """Return a module's path inside the model, or the name of any other record."""
    try:
        parsed = parse_record(name)
    except RecordNameError:
        return name
    return parsed.operator if parsed.is_module else name
