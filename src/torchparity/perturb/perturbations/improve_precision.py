"""Raises float16 and bfloat16 inputs to float32: finds APIs that lose more than rounding their result does."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.autocast import is_autocasting
from torchparity.perturb.subject import CancelledError, Subject

LOW = frozenset({torch.float16, torch.bfloat16})


class ImprovePrecision:
    """See the contract in `perturbations/__init__.py`."""

    name = "improve_precision"
    is_differentiable = True
    leaves_autocast = True
    moves_by_ulp = False

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        check_low_precision(subject)
        return [tensor.to(torch.float32) if tensor.dtype in LOW else tensor for tensor in subject.tensors]

    def changed(self, value: Any) -> Any:
        return torch.float32 if isinstance(value, torch.dtype) and value in LOW else value


def check_low_precision(subject: Subject) -> None:
    """Raise where nothing is computed in low precision: neither by its inputs nor by autocast."""
    has_low = any(tensor.dtype in LOW for tensor in subject.tensors)
    floats = [tensor for tensor in subject.tensors if tensor.is_floating_point()]
    is_cast = any(map(is_autocasting, {tensor.device.type for tensor in floats}))
    if not has_low and not is_cast:
        raise CancelledError("it has no low-precision input")
    if not any(tensor.numel() for tensor in floats):
        raise CancelledError("its input is empty")


PLUGIN = ImprovePrecision()
