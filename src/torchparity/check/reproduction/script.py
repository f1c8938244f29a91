"""A script of under 60 lines that shows a failure with torch alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torchparity.check.cases import DeviceWord, DtypeWord, Input
from torchparity.check.execution import Performed
from torchparity.check.reproduction.template import SCRIPT
from torchparity.check.results import CaseResult

_HOMES = {
    "Functional": "torch.nn.functional",
    "Tensor": "torch.Tensor",
    "Torch": "torch",
    "VF": "torch._VF",
    "Aten": "torch.ops.aten",
    "Ops": "torch.ops",
    "NPU": "torch.ops.npu",
}


def script_text(result: CaseResult, performed: Performed, device: str) -> str:
    """Return the script of a failed call; it prints a row for each failed result, and exits with 1 on an error."""
    way = performed.reference_way
    wide = "None" if way.raised is None else str(way.raised)
    return SCRIPT.substitute(
        name=result.name,
        device=device,
        wide=wide,
        default=wide if way.raised is torch.float64 and way.raises_words else "torch.float32",
        call=_call(performed, raises_words=way.raises_words),
    )


def script_writes(performed: Performed) -> list[str]:
    """Return the places of the arguments that the call changes in place."""
    if not performed.call.writes:
        return []
    return [given.path for given in performed.call.arguments.inputs()]


def _call(performed: Performed, *, raises_words: bool) -> str:
    arguments = performed.call.arguments
    words = [_code(entry, raises_words) for entry in arguments.args]
    words += [f"{key}={_code(entry, raises_words)}" for key, entry in arguments.kwargs.items()]
    return f"{_function(performed.case.api, performed.call.function)}({', '.join(words)})"


def _function(api: str, function: Callable[..., Any]) -> str:
    family, _, name = api.partition(".")
    shown = f"{_HOMES[family]}.{name}"
    return f"{shown}.__get__" if getattr(function, "__name__", "") == "__get__" else shown


def _code(leaf: Any, raises_words: bool) -> str:
    """Return the source of an argument."""
    if isinstance(leaf, Input):
        return f't["{leaf.path}"]'
    if isinstance(leaf, DeviceWord):
        return "device"
    if isinstance(leaf, DtypeWord):
        return f"wider({leaf.dtype})" if raises_words else str(leaf.dtype)
    if isinstance(leaf, float) and not math.isfinite(leaf):
        return f'float("{leaf}")'
    if isinstance(leaf, torch.Size):
        return f"torch.{leaf!r}"
    if isinstance(leaf, dict):
        return "{" + ", ".join(f"{key!r}: {_code(entry, raises_words)}" for key, entry in leaf.items()) + "}"
    if isinstance(leaf, list):
        return "[" + ", ".join(_code(entry, raises_words) for entry in leaf) + "]"
    if isinstance(leaf, tuple):
        return "(" + "".join(f"{_code(entry, raises_words)}, " for entry in leaf) + ")"
    return repr(leaf)
