"""Whether the names in `scope`, `list` and `tensor_list` can come up at all, as far as that is known at start."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch.nn import functional

from torchparity.errors import ConfigError, RecordNameError, nearest
from torchparity.naming import parse_record
from torchparity.recording.selection.selection import is_full

_API = re.compile(r"(?P<family>\w+)\.(?P<api>.+)\.(?P<rest>\d+\.(?:forward|backward))")
_CALL = re.compile(r"\.(forward|backward)\.\d+$")
_DIRECTIONS = ("forward", "backward", "parameters_grad")
_HOMES: dict[str, Any] = {
    "Functional": functional,
    "Tensor": torch.Tensor,
    "Torch": torch,
    "Distributed": torch.distributed,
}


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
        is_inside = stand_for_inside and modules is not None and is_full(name) and ".forward." in name
        if level == "L1" and name.startswith("Module.") and not is_inside:
            raise ConfigError(
                f"{name!r} is the name of a module, and level 'L1' records APIs only; use level 'L0' or 'mix', "
                "for which start() needs the model: start(model=...)."
            )
        if name.startswith("Module.") and is_full(name):
            _check_module(name, modules)
        elif is_full(name):
            if level == "L0":
                raise ConfigError(f"{name!r} is the name of an API, and level 'L0' records modules only; use 'mix'.")
            _check_api(name, custom)
        elif level == "L0" and modules is not None:
            _check_part(name, modules)


def check_scope(scope: Sequence[str]) -> None:
    """Raise `ConfigError` for a range that certainly ends before it begins, or begins where no range can."""
    if not scope or not all(map(is_full, scope)):
        return
    try:
        first, last = parse_record(scope[0]), parse_record(scope[-1])
    except RecordNameError:
        return  # a user's own prefix may be anything
    for name, known, does in ((scope[0], first, "begins"), (scope[-1], last, "ends")):
        if known.direction == "backward":
            forward = str(replace(known, direction="forward"))
            raise ConfigError(f"scope {does} with {name!r}, but is a range of forward calls; use {forward!r}.")
    if replace(first, call=last.call) == last and (first.call or 0) > (last.call or 0):
        raise ConfigError(f"scope begins with {scope[0]!r}, which comes after its end {scope[-1]!r}; swap them.")


def _check_module(name: str, modules: Collection[str] | None) -> None:
    if modules is None:
        raise ConfigError(f"{name!r} is the name of a module; start() needs the model to find it: start(model=...).")
    call = _CALL.search(name)
    known = {f"{module}{call[0] if call else ''}" for module in modules}
    if name not in known:
        raise ConfigError(f"the model has no module for {name!r}.{nearest(name, known)}")


def _check_part(part: str, modules: Collection[str]) -> None:
    wanted = re.sub(r"\.\d*$", "", part.lower())
    names = [f"{module}.{direction}" for module in modules for direction in _DIRECTIONS]
    if not any(wanted in name.lower() for name in names):
        raise ConfigError(f"no module of the model has {part!r} in its name.{nearest(part, modules)}")


def _check_api(name: str, custom: Collection[str]) -> None:
    found = _API.fullmatch(name)
    if found is None or found["family"] not in _HOMES or f"{found['family']}.{found['api']}" in custom:
        return  # of vendors' and users' own functions there is no list
    home = _HOMES[found["family"]]
    try:
        attrgetter(found["api"])(home)
    except AttributeError:
        known = [f"{found['family']}.{api}.{found['rest']}" for api in dir(home) if callable(getattr(home, api, None))]
        raise ConfigError(f"torch has no API for {name!r}.{nearest(name, known)}") from None
