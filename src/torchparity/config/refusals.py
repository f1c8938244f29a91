"""Errors about settings: what a field is, what it was given, and what it may be."""

from __future__ import annotations

import types
from collections.abc import Collection
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from torchparity.errors import ConfigError, nearest


def unknown_field(source: str, key: str, shown: str, fields: Collection[str]) -> ConfigError:
    """Return the error for a field that does not exist, with the nearest of those that do."""
    return ConfigError(f"{source}: unknown field {shown!r}.{nearest(key, fields)} Fields here: {', '.join(fields)}.")


def field_of_block(source: str, shown: str, blocks: Collection[str]) -> ConfigError:
    """Return the error for a field that stands outside of the blocks that have it."""
    return ConfigError(f"{source}: field {shown!r} belongs into the block {' or '.join(map(repr, blocks))}.")


def bad_value(source: str, where: str, value: Any, must_be: str, options: tuple[Any, ...] = ()) -> ConfigError:
    """Return the error for a value that a field cannot have; of `options` the nearest is suggested."""
    hint = nearest(value, options) if isinstance(value, str) and options else ""
    return ConfigError(f"{source}: field {where!r} is {repr(value)[:80]}; it must be {must_be}.{hint}")


def choices(hint: Any) -> tuple[Any, ...]:
    """Return what to offer for a field: of tasks and levels those that can be recorded."""
    literal = hint.__metadata__[0] if get_origin(hint) is Annotated else hint
    return get_args(literal) if get_origin(literal) is Literal else ()


def wanted(hint: Any) -> str:
    """Say in words what a field's type admits."""
    if options := choices(hint):
        return "one of " + ", ".join(map(repr, options))
    if get_origin(hint) is Annotated:
        return str(hint.__metadata__[0])
    if get_origin(hint) is list:
        return "a list, each entry " + wanted(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(wanted(option) for option in get_args(hint))
    words = {bool: "true or false", int: "a whole number", str: "text", type(None): "null"}
    return words.get(hint, str(hint))
