"""Calls that write their arguments: functions that only may write are looked at more closely, to save a copy."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache

from torchparity.calls import Call
from torchparity.ops import function_called

_FUNCTIONAL = "Functional."
_WRITES_IF = ("inplace", "max_norm")  # arguments that make a function write what it is given


def may_write(call: Call) -> bool:
    """Tell whether a call may write its arguments; False only where it certainly does not."""
    if (
        not call.writes
        or call.op.writes_unversioned
        or not call.op.name.startswith(_FUNCTIONAL)
        or "out" in call.kwargs
    ):
        return call.writes
    places = _places(call.op.name)
    if not places:
        return True
    given = [call.args[place] if place < len(call.args) else call.kwargs.get(name) for name, place in places.items()]
    return any(value is not None and value is not False for value in given)


@cache
def _places(api: str) -> Mapping[str, int]:
    """Return the places of the arguments of a function that make it write; none where it always may."""
    function = function_called(api)
    if function is None or api.endswith("_"):
        return {}
    parameters = list(inspect.signature(function).parameters)
    return {name: parameters.index(name) for name in _WRITES_IF if name in parameters}
