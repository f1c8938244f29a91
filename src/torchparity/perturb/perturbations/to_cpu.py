"""Moves the inputs to the CPU, low precision raised to float32: finds APIs whose kernel on the device is wrong."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.apis.unsuitable import NEEDS_DTYPE, needs_dtype
from torchparity.perturb.perturbations.improve_precision import RAISED
from torchparity.perturb.subject import NOTHING_RAISED, CancelledError, Moved, Subject

_CPU = torch.device("cpu")


class ToCpu:
    """See the contract in `perturbations/__init__.py`."""

    name = "to_cpu"
    is_differentiable = True
    leaves_autocast = True
    raised = NOTHING_RAISED
    moves_elements = False
    moved: Moved = "none"

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        if not any(tensor.numel() for tensor in subject.tensors):
            raise CancelledError("its input is empty")
        if needs_dtype(subject.api) and any(tensor.dtype in RAISED for tensor in subject.tensors):
            raise CancelledError(NEEDS_DTYPE)
        return [tensor.to(_CPU, RAISED.get(tensor.dtype, tensor.dtype)) for tensor in subject.tensors]

    def changed(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return _CPU
        if isinstance(value, str) and value.partition(":")[0] in _device_types():
            return "cpu"
        return RAISED.get(value, value) if isinstance(value, torch.dtype) else value


def _device_types() -> tuple[str, ...]:
    own = torch._C._get_privateuse1_backend_name()
    return ("cuda", "npu", "xpu", "mps", own)


PLUGIN = ToCpu()
