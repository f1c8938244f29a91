"""Faults of a kernel that takes an argument for another, or loses one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torchparity.errors import ConfigError
from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.fault import Fault


@dataclass(frozen=True)
class WrongEpsilon(Fault):
    """A normalisation that adds another epsilon than the one it was called with."""

    eps: float = 1e-2

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Any:
        return kernel(call.with_argument(_present(call, ("eps",), "epsilon"), self.eps))


@dataclass(frozen=True)
class DroppedBias(Fault):
    """A matmul or a convolution that forgets its bias."""

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Any:
        name = "beta" if call.has("beta") else _present(call, ("bias",), "bias")
        return kernel(call.with_argument(name, 0 if name == "beta" else _zeros(call.argument(name))))


def _zeros(bias: torch.Tensor | None) -> torch.Tensor | None:
    return None if bias is None else torch.zeros_like(bias)


def _present(call: HostCall, names: tuple[str, ...], kind: str) -> str:
    for name in names:
        if call.has(name):
            return name
    raise ConfigError(f"the simulated NPU cannot plant a wrong {kind} in {call.name}, which has none.")
