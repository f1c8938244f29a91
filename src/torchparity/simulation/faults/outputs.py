"""Faults of a kernel that spoils what it has computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.fault import Fault, first_tensor


@dataclass(frozen=True)
class NanAt(Fault):
    """A kernel that leaves nan at one place of its first output, counted over the flat tensor."""

    index: int = 0

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Any:
        result = kernel(call)
        output = first_tensor(result)
        if output.numel() and output.is_floating_point():
            places = torch.unravel_index(torch.tensor(self.index % output.numel()), output.shape)
            output[places] = float("nan")
        return result


@dataclass(frozen=True)
class ScaledOutput(Fault):
    """A kernel that scales its first output by a factor that it should not have."""

    factor: float = 1.01

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Any:
        result = kernel(call)
        output = first_tensor(result)
        if output.is_floating_point():
            output.mul_(self.factor)
        return result


@dataclass(frozen=True)
class SaturatedOverflow(Fault):
    """A kernel that clamps what it cannot represent, and sets the overflow flag instead of giving inf."""

    limit: float = 65504.0

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Any:
        result = kernel(call)
        output = first_tensor(result)
        if output.is_floating_point() and bool((output.abs() > self.limit).any()):
            raise_overflow()
            output.clamp_(-self.limit, self.limit)
        return result
