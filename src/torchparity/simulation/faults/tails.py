"""A kernel that works in blocks and forgets to mask the last, incomplete one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.fault import Fault, first_tensor


@dataclass(frozen=True)
class UnmaskedTail(Fault):
    """A kernel that does not mask its tail: the last elements are those of the block before."""

    elements: int = 3

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Any:
        result = kernel(call)
        output = first_tensor(result)
        flat = output.detach().reshape(-1).clone()
        tail = min(self.elements, flat.numel() // 2)
        if tail:
            flat[-tail:] = flat[-2 * tail : -tail].clone()
            output.copy_(flat.view(output.shape))
        return result
