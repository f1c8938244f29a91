"""Finds the model of a script: the module that is called first, or the one whose name was given."""

from __future__ import annotations

import gc
import sys
from operator import attrgetter
from typing import Any

from torch import nn


def outermost(called: nn.Module) -> nn.Module:
    """Return the largest module around `called`: a LightningModule, say, calls its layers, and nobody calls it."""
    modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module) and "_modules" in vars(each)]
    around = [(sum(1 for _ in each.modules()), each) for each in modules if _has_inside(each, called)]
    return max(around, key=lambda pair: pair[0], default=(0, called))[1]


def _has_inside(module: nn.Module, wanted: nn.Module) -> bool:
    return any(each is wanted for each in module.modules())


def named(name: str, called: nn.Module) -> nn.Module | None:
    """Return the module that a variable of the script holds, or `called` where its class has this name."""
    if type(called).__name__ == name:
        return called
    try:
        found: Any = attrgetter(name)(sys.modules["__main__"])
    except AttributeError:
        return None
    return found if isinstance(found, nn.Module) else None
