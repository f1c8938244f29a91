"""Hides our hooks from torch.jit.script, which would compile every hook of a module along with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from torchparity.calls.guard.inert_hooks import Hook
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
        with _hidden(module):
            return original(module, *args, **kwargs)

    return create


@contextmanager
def _hidden(model: nn.Module) -> Iterator[None]:
    taken = [
        (hooks, list(hooks.items()))
        for module in model.modules()
        for hooks in (module._forward_hooks, module._forward_pre_hooks)
        if any(isinstance(hook, Hook) for hook in hooks.values())
    ]
    try:
        for hooks, entries in taken:
            for key, hook in entries:
                if isinstance(hook, Hook):
                    del hooks[key]
        yield
    finally:
        for hooks, entries in taken:
            hooks.clear()
            hooks.update(entries)
