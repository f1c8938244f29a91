"""Checks the names in `scope`, `list` and `tensor_list` at start: refuses those that no record can have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from torchparity.errors import ConfigError, RecordNameError, nearest
from torchparity.naming import forward_of, is_call_name, is_module_name, parse_record
from torchparity.ops import function_called, is_torch_family, names_of_family, respelt

_DIRECTIONS = ("forward", "backward", "parameters_grad")


def check_names(
    asked: Iterable[str],
    *,
    level: str,
    modules: Collection[str] | None,
    custom: Collection[str],
    stand_for_inside: bool = False,
) -> None:
    """Raise `ConfigError` for the first name that no record of this recording can have.

    Parts of names are checked at level L0 only: there the modules are all there is.
    `modules` are the modules' names, None without a model; where a module's call may
    `stand_for_inside`, for the APIs within it, it may be named at L1 too.
    """
    for name in asked:
        is_module = is_module_name(name)
        is_inside = stand_for_inside and modules is not None and is_call_name(name) and forward_of(name) == name
        if level == "L1" and is_module and not is_inside:
            raise ConfigError(
                f"{name!r} is the name of a module, and level 'L1' records APIs only; use level 'L0' or 'mix', "
                "for which start() needs the model: start(model=...)."
            )
        if is_module and is_call_name(name):
            _check_module(name, modules)
        elif is_call_name(name):
            if level == "L0":
                raise ConfigError(f"{name!r} is the name of an API, and level 'L0' records modules only; use 'mix'.")
            _check_api(name, custom)
        elif level == "L0" and modules is not None:
            _check_part(name, modules)


def check_scope(scope: Sequence[str]) -> None:
    """Raise `ConfigError` for a range that certainly ends before it begins, or begins where no range can."""
    if not scope or not all(map(is_call_name, scope)):
        return
    try:
        first, last = parse_record(scope[0]), parse_record(scope[-1])
    except RecordNameError:
        return  # a user's own prefix may be anything
    for name, parts, does in ((scope[0], first, "begins"), (scope[-1], last, "ends")):
        if parts.direction == "backward":
            forward = str(parts.forward)
            raise ConfigError(f"scope {does} with {name!r}, but is a range of forward calls; use {forward!r}.")
    if replace(first, call=last.call) == last and (first.call or 0) > (last.call or 0):
        raise ConfigError(f"scope begins with {scope[0]!r}, which comes after its end {scope[-1]!r}; swap them.")


def _check_module(name: str, modules: Collection[str] | None) -> None:
    if modules is None:
        raise ConfigError(f"{name!r} is the name of a module; start() needs the model to find it: start(model=...).")
    ending = name.removeprefix(parse_record(name).family)
    possible = {f"{module}{ending}" for module in modules}
    if name not in possible:
        raise ConfigError(f"the model has no module for {name!r}.{nearest(name, possible)}")


def _check_part(part: str, modules: Collection[str]) -> None:
    wanted = re.sub(r"\.\d*$", "", part.lower())
    names = [f"{module}.{direction}" for module in modules for direction in _DIRECTIONS]
    if not any(wanted in name.lower() for name in names):
        raise ConfigError(f"no module of the model has {part!r} in its name.{nearest(part, modules)}")


def _check_api(name: str, custom: Collection[str]) -> None:
    try:
        parts = parse_record(name)
    except RecordNameError:
        return  # a user's own prefix may be anything
    if parts.family in custom or function_called(parts.family) is not None:
        return
    ending = name.removeprefix(parts.family)
    if spelt := respelt(parts.family):
        raise ConfigError(f"torch has no API for {name!r}. Did you mean {spelt + ending!r}?")
    if not is_torch_family(parts.api_type):
        return  # of vendors' and users' own functions there is no list
    possible = [f"{family}{ending}" for family in names_of_family(parts.api_type)]
    raise ConfigError(f"torch has no API for {name!r}.{nearest(name, possible)}")
