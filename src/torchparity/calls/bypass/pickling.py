"""Hides our hooks from whoever copies or pickles a module: a file that is saved in a recorded step is as without us."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from torchparity.calls.guard.inert_hooks import state_without_hooks
from torchparity.calls.guard.patches import Patches

_ENTRANCE = "__getstate__"


class PicklingGuard:
    """Wraps the function that gives a module's state while attached; a class may have one of its own."""

    def __init__(self) -> None:
        self._patches = Patches()

    def attach(self) -> None:
        has_entrance = inspect.getattr_static(nn.Module, _ENTRANCE, None) is not None  # not so in Python 3.10
        if not self._patches and has_entrance:
            self._patches.put(nn.Module, _ENTRANCE, _without_hooks)

    def detach(self) -> None:
        self._patches.end()


def _without_hooks(original: Callable[[nn.Module], Any]) -> Callable[[nn.Module], Any]:
    @functools.wraps(original)
    def state(module: nn.Module) -> Any:
        return state_without_hooks(original(module))

    return state
