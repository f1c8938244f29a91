"""Changes nothing: an API whose result on a copy of its inputs is another one is not deterministic."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.perturb.memory_layout import copied
from torchparity.perturb.subject import NOTHING_RAISED, CancelledError, Moved, Subject


class NoChange:
    """See the contract in `perturbations/__init__.py`."""

    name = "no_change"
    is_differentiable = False
    leaves_autocast = False
    raised = NOTHING_RAISED
    moves_elements = False
    moved: Moved = "none"

    def perturbed(self, subject: Subject) -> list[torch.Tensor]:
        if not any(tensor.numel() for tensor in subject.tensors):
            raise CancelledError("its input is empty")
        return [copied(tensor) for tensor in subject.tensors]

    def changed(self, value: Any) -> Any:
        return value


PLUGIN = NoChange()
