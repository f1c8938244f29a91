"""A kernel that works in blocks and forgets to mask the last, incomplete one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.fault import Fault, Outcome, first_tensor
from torchparity.simulation.faults.values import check_whole_number


@dataclass(frozen=True)
class UnmaskedTail(Fault):
    """A kernel that does not mask its tail: the last elements are those of the block before."""

    elements: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number(self, "elements", least=1)

    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Outcome:
        result = kernel(call)
        output = first_tensor(result)
        flat = output.detach().reshape(-1).clone()
        tail = min(self.elements, flat.numel() // 2)
        if tail:
            flat[-tail:] = flat[-2 * tail : -tail].clone()
            output.copy_(flat.view(output.shape))
        return Outcome(result, tail > 0)
