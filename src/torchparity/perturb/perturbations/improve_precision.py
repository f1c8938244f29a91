"""Raises float16 and bfloat16 inputs to float32: finds APIs that lose more than rounding their result does."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.apis.unsuitable import NEEDS_DTYPE, needs_dtype
from torchparity.perturb.subject import CancelledError, Moved, Raised, Subject, no_low_precision
from torchparity.perturb.widening import widened

RAISED = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
WITH_FLOAT32 = {**RAISED, torch.float32: torch.float64}


class ImprovePrecision:
    """See the contract in `perturbations/__init__.py`."""

    name = "improve_precision"
    is_differentiable = True
    leaves_autocast = True
    moves_elements = False
    moved: Moved = "none"

    def __init__(self, raised: Raised = RAISED) -> None:
        self.raised = raised

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        self._check_low_precision(subject)
        if needs_dtype(subject.api):
            raise CancelledError(NEEDS_DTYPE)
        raised = self.raised
        if torch.float32 in raised and any(tensor.dtype is torch.float32 for tensor in subject.tensors):
            raised = dict.fromkeys(raised, torch.float64)  # autocast, which is switched off, makes one dtype of several
        return [widened(tensor, raised.get(tensor.dtype, tensor.dtype)) for tensor in subject.tensors]

    def changed(self, value: Any) -> Any:
        return self.raised.get(value, value) if isinstance(value, torch.dtype) else value

    def _check_low_precision(self, subject: Subject) -> None:
        """Raise where nothing is computed in low precision: neither by its inputs nor by autocast."""
        has_low = any(tensor.dtype in self.raised for tensor in subject.tensors)
        if not has_low and not subject.is_autocast:
            raise CancelledError(no_low_precision(self.raised))
        if not any(tensor.numel() for tensor in subject.tensors if tensor.is_floating_point()):
            raise CancelledError("its input is empty")


PLUGIN = ImprovePrecision()
