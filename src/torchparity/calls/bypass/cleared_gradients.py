"""Takes our mode off while gradients are set to None: nothing is computed, yet torch would hand it every look."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from torchparity.calls.guard.mode_stack import take_off, without
from torchparity.calls.guard.patches import Patches


class ClearedGradients:
    """Wraps `zero_grad` of optimizers and modules while attached; detached in compiled regions, as fast paths are.

    A training that begins with it leaves the device idle meanwhile, and torch asks a mode up to four times for each
    parameter.
    """

    def __init__(self, mode: TorchFunctionMode) -> None:
        self._mode, self._patches = mode, Patches()

    def attach(self) -> None:
        if not self._patches:
            for owner in (torch.optim.Optimizer, nn.Module):
                self._patches.put(owner, "zero_grad", self._without_mode)

    def detach(self) -> None:
        self._patches.end()

    def _without_mode(self, original: Callable[..., Any]) -> Callable[..., Any]:
        mode, patches = self._mode, self._patches

        @functools.wraps(original)
        def zero_grad(self: Any, set_to_none: bool = True) -> Any:
            if torch.compiler.is_compiling() or not set_to_none:
                return original(self, set_to_none)
            with without(mode):
                cleared = original(self, set_to_none)
            if not patches:  # the recording has ended meanwhile
                take_off(mode)
            return cleared

        return zero_grad
