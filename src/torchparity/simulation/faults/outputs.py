"""Faults of a kernel that spoils what it has computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.fault import Fault, Outcome, first_tensor
from torchparity.simulation.faults.values import check_number, check_whole_number


@dataclass(frozen=True)
class NanAt(Fault):
    """A kernel that leaves nan at one place of its first output, counted over the flat tensor."""

    index: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number(self, "index")

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Outcome:
        result = kernel(call)
        output = first_tensor(result)
        is_wrong = _has_numbers(output)
        if is_wrong:
            places = torch.unravel_index(torch.tensor(self.index % output.numel()), output.shape)
            output[places] = float("nan")
        return Outcome(result, is_wrong)


@dataclass(frozen=True)
class ScaledOutput(Fault):
    """A kernel that scales its first output by a factor that it should not have."""

    factor: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "factor")

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Outcome:
        result = kernel(call)
        output = first_tensor(result)
        is_wrong = _has_numbers(output) and self.factor != 1
        if is_wrong:
            output.mul_(self.factor)
        return Outcome(result, is_wrong)


@dataclass(frozen=True)
class SaturatedOverflow(Fault):
    """A kernel that clamps what it cannot represent, and sets the overflow flag instead of giving inf."""

    limit: float = 65504.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "limit", is_positive=True)

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Outcome:
        result = kernel(call)
        output = first_tensor(result)
        is_wrong = _has_numbers(output) and bool((output.abs() > self.limit).any())
        if is_wrong:
            raise_overflow()
            output.clamp_(-self.limit, self.limit)
        return Outcome(result, is_wrong)


def _has_numbers(output: torch.Tensor) -> bool:
    return output.is_floating_point() and output.numel() > 0
