"""Keeps the fused inference paths of nn.Transformer and nn.MultiheadAttention, which torch refuses to modes and hooks.

Without modes or hooks torch runs an encoder layer as one fused operator. Its results differ
from the unfused ones by rounding, and substantially with a padding mask. So torch's checks
for active modes and hooks are patched to ignore ours. The operator is recorded like any other.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from torchparity.calls.guard.frames import who_calls
from torchparity.calls.guard.inert_hooks import Hook
from torchparity.calls.guard.mode_stack import without
from torchparity.calls.guard.patches import Patches

_MODULES_THAT_CHECK = frozenset({"torch.nn.modules.transformer", "torch.nn.modules.activation"})


class FastPaths:
    """Hides one mode and our hooks from those checks while attached.

    It is detached in compiled regions, where the compiler would trace the patches.
    """

    def __init__(self, mode: TorchFunctionMode) -> None:
        self._mode, self._patches = mode, Patches()

    def attach(self) -> None:
        if not self._patches:
            self._patches.put(torch.overrides, "has_torch_function", self._ignoring_our_mode)
            self._patches.put(nn.TransformerEncoderLayer, "modules", _ignoring_our_hooks)

    def detach(self) -> None:
        self._patches.end()

    def _ignoring_our_mode(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def has_torch_function(arguments: Any) -> Any:
            if torch.compiler.is_compiling() or who_calls().f_globals.get("__name__") not in _MODULES_THAT_CHECK:
                return original(arguments)
            with without(self._mode):
                return original(arguments)

        return has_torch_function


def _ignoring_our_hooks(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def modules(layer: nn.Module, *args: Any, **kwargs: Any) -> Iterator[Any]:
        modules_of_layer = original(layer, *args, **kwargs)
        if torch.compiler.is_compiling() or sys._getframe(1).f_code is not nn.TransformerEncoderLayer.forward.__code__:
            return modules_of_layer  # type: ignore[no-any-return]
        return (_without_our_hooks(module) for module in modules_of_layer)

    return modules


def _without_our_hooks(module: nn.Module) -> SimpleNamespace:
    kinds = ("_forward_hooks", "_forward_pre_hooks")
    return SimpleNamespace(
        **{kind: [h for h in getattr(module, kind).values() if type(h) is not Hook] for kind in kinds}
    )
