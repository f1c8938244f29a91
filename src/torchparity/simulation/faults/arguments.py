"""Faults of a kernel that takes an argument for another, or loses one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from torchparity.errors import ConfigError
from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.fault import Fault, Outcome
from torchparity.simulation.faults.values import check_number


@dataclass(frozen=True)
class WrongEpsilon(Fault):
    """A normalisation that adds another epsilon than the one it was called with."""

    eps: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "eps")

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Outcome:
        name = _present(call, ("eps",), "epsilon")
        return Outcome(kernel(call.with_argument(name, self.eps)), call.argument(name) != self.eps)


@dataclass(frozen=True)
class DroppedBias(Fault):
    """A matmul or a convolution that forgets its bias."""

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Outcome:
        name = "beta" if call.has("beta") else _present(call, ("bias",), "bias")
        bias = call.argument(name)
        if name == "beta":
            return Outcome(kernel(call.with_argument(name, 0)), bias != 0)
        return Outcome(kernel(call.with_argument(name, _zeros(bias))), bias is not None)


def _zeros(bias: torch.Tensor | None) -> torch.Tensor | None:
    return None if bias is None else torch.zeros_like(bias)


def _present(call: HostCall, names: tuple[str, ...], kind: str) -> str:
    for name in names:
        if call.has(name):
            return name
    raise ConfigError(f"the simulated NPU cannot plant a wrong {kind} in {call.name}, which has none.")
