"""The environment of a run in lines for people: keys that begin alike share a line."""

from __future__ import annotations

from collections.abc import Mapping

_NOT_SET = "not set"
_SEEDS = "seed"  # every rank has its own


def environment_lines(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what is set under each first word: ("tf32", "matmul off, conv on")."""
    lines: dict[str, list[str]] = {}
    for key, value in environment.items():
        first, _, rest = key.partition(".")
        lines.setdefault(first, []).append(f"{rest} {value}".strip())
    return [(first, ", ".join(values)) for first, values in lines.items()]


def changes(environment: Mapping[str, str], first: Mapping[str, str]) -> str:
    """Return what is set otherwise than at first, "tf32.matmul on" say; seeds left out."""
    keys = [key for key in {**first, **environment} if key.partition(".")[0] != _SEEDS]
    values = {key: environment.get(key, _NOT_SET) for key in keys}
    return ", ".join(f"{key} {value}" for key, value in values.items() if first.get(key, _NOT_SET) != value)
