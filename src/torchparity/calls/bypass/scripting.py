"""Hides our hooks from torch.jit.script, which would compile every hook of a module along with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from torchparity.calls.guard.inert_hooks import HiddenHooks
from torchparity.calls.guard.patches import Patches

_ENTRANCE = "create_script_module"


class ScriptingGuard:
    """Wraps the one function that makes script modules while attached."""

    def __init__(self) -> None:
        self._patches = Patches()

    def attach(self) -> None:
        if not self._patches and hasattr(torch.jit._recursive, _ENTRANCE):
            self._patches.put(torch.jit._recursive, _ENTRANCE, _without_hooks)

    def detach(self) -> None:
        self._patches.end()


def _without_hooks(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        hidden = HiddenHooks(module.modules())
        try:
            return original(module, *args, **kwargs)
        finally:
            hidden.put_back()

    return create
