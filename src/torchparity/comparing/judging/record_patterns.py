"""Patterns that name records: a record's name, the path of a module with all that is inside it, or a shell pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from torchparity.naming import family_of, is_module_name

Enclosing = Mapping[str, str | None]  # the module that each record was called from
_WILDCARDS = frozenset("*?[")


def matches(pattern: str, record: str, enclosing: Enclosing) -> bool:
    """Tell whether a pattern names a record, or a module that it is or lies in.

    `layers.0.mlp` is the module with that path; `*.dropout.*` is any record or module whose whole name fits.
    """
    if pattern == record:
        return True
    has_wildcard = not _WILDCARDS.isdisjoint(pattern)
    if has_wildcard and fnmatchcase(record, pattern):
        return True
    for path in module_paths(record, enclosing):
        if has_wildcard and fnmatchcase(path, pattern):
            return True
        if path == pattern or path.startswith(f"{pattern}."):
            return True
    return False


def module_paths(record: str, enclosing: Enclosing) -> Iterator[str]:
    """Yield the paths of the module that a record is and of those around it, each with and without its class."""
    seen: set[str] = set()
    name: str | None = record
    while name is not None and name not in seen:
        seen.add(name)
        if is_module_name(name):
            path = family_of(name).removeprefix("Module.")
            yield path
            yield path.rpartition(".")[0]
        name = enclosing.get(name)
