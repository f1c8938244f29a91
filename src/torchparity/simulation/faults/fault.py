"""The contract of a planted fault: one call of one operator computes something else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from torchparity.simulation.call import HostCall, Kernel
from torchparity.simulation.faults.values import check_whole_number, wrong_value

# What people call an operator, and what ATen calls the kernel that does its work.
KERNELS_OF = {
    "linear": ("addmm",),
    "matmul": ("mm", "bmm"),
    "conv1d": ("convolution_overrideable",),
    "conv2d": ("convolution_overrideable",),
    "conv3d": ("convolution_overrideable",),
    "layer_norm": ("native_layer_norm",),
    "group_norm": ("native_group_norm",),
    "batch_norm": ("native_batch_norm",),
    "softmax": ("_softmax",),
    "log_softmax": ("_log_softmax",),
    "dropout": ("native_dropout",),
    "nll_loss": ("nll_loss_forward", "nll_loss2d_forward"),
    "attention": ("_scaled_dot_product_flash_attention_for_cpu",),
    "scaled_dot_product_attention": ("_scaled_dot_product_flash_attention_for_cpu",),
    "max_pool2d": ("max_pool2d_with_indices",),
}


class Outcome(NamedTuple):
    """The result of a faulty kernel, and whether the fault found something to spoil in it."""

    result: Any
    is_wrong: bool


@dataclass(frozen=True)
class Fault(ABC):
    """A fault in one call of an operator: `call` counts its calls from 0, None is every call.

    `operator` is the name of an API such as "layer_norm", or of a kernel such as "native_layer_norm".
    """

    operator: str
    call: int | None = 0

    def __post_init__(self) -> None:
        if not isinstance(self.operator, str):
            raise wrong_value(self, "operator", 'a name, such as "linear"')
        if self.call is not None:
            check_whole_number(self, "call", least=0, besides=", or None for every call")

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels whose calls are counted."""
        return KERNELS_OF.get(self.operator, (self.operator,))

    @abstractmethod
    def compute(self, call: HostCall, kernel: Kernel, raise_overflow: Callable[[], None]) -> Outcome:
        """Compute wrongly where there is something to spoil; `raise_overflow` sets the device's overflow flag."""


def first_tensor(result: Any) -> torch.Tensor:
    """Return the main output of an operator."""
    return result if isinstance(result, torch.Tensor) else first_tensor(result[0])
