"""Functions that may be called because a file names them: operators, and nothing that loads, saves or runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_COMPILED = frozenset(
    {"torch", *(f"torch._C._{name}" for name in ("nn", "fft", "linalg", "special", "sparse", "nested"))}
)
_WRITTEN_IN_PYTHON = (
    *("torch.nn.functional", "torch.functional", "torch._tensor", "torch._jit_internal", "torch.signal.windows"),
    *("torch._lowrank", "torch._lobpcg", "torch._linalg_utils", "torch.masked", "torch.sparse", "torch.special"),
    *("torch_npu", "torch._VF"),
)
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_FILES = frozenset({"from_file", "load", "save"})
_SWITCHES = ("set_", "_set_")  # of the whole process: threads, subnormals, anomalies, printing


def is_operator(function: Callable[..., Any]) -> bool:
    """Tell whether a function is one of torch's operators, so that a record may ask for its call.

    A run may come from anybody, and `torch.os.system` can be named like `torch.exp`.
    """
    name = str(getattr(function, "__name__", "")).partition(".")[0]
    if isinstance(function, type) or name in _FILES or (name.startswith(_SWITCHES) and name not in _SWITCHES):
        return False
    if isinstance(function, _OPERATORS):
        return _has_tensors(function)
    shown = getattr(function, "__self__", None) if getattr(function, "__name__", "") == "__get__" else function
    owner = getattr(shown, "__objclass__", None)
    if isinstance(owner, type):
        return issubclass(torch.Tensor, owner)
    module = str(getattr(function, "__module__", None) or "")
    if not hasattr(function, "__code__"):
        return module in _COMPILED
    return module.startswith(_WRITTEN_IN_PYTHON)


def _has_tensors(function: Any) -> bool:
    """Tell whether an operator takes or returns tensors; TorchScript has others, which print and save."""
    overloads = [getattr(function, name) for name in function.overloads()] if hasattr(function, "overloads") else []
    schemas = [overload._schema for overload in overloads or [function]]
    values = [value for schema in schemas for value in (*schema.arguments, *schema.returns)]
    return any("Tensor" in str(value.type) for value in values)
