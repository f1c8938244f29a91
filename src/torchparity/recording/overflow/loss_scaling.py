"""Loss scaling: a GradScaler makes gradients overflow on purpose, to find the largest scale that does not."""

from __future__ import annotations

from types import FrameType
from typing import Any

from torch.amp.grad_scaler import GradScaler

_FILES = ("grad_scaler.py",)  # torch.amp's, and that of sharded training
_SCALES = frozenset({"scale", "apply_scale"})
_ENDS = frozenset({"update"})


class LossScaling:
    """Knows whether the backward pass in hand is that of a scaled loss."""

    def __init__(self) -> None:
        self._scaler: Any = None
        self.probes = 0  # overflows that were the scaler's own probing

    def is_own_arithmetic(self, frame: FrameType | None) -> bool:
        """Tell whether a GradScaler itself makes the call, and note what that means for the gradients to come."""
        if frame is None or not frame.f_code.co_filename.endswith(_FILES):
            return False
        scaler = frame.f_locals.get("self")
        if frame.f_code.co_name in _SCALES and isinstance(scaler, GradScaler):
            self._scaler = scaler
        elif frame.f_code.co_name in _ENDS:
            self._scaler = None
        return True

    def is_probing(self) -> bool:
        """Tell whether a scale explains an overflow of gradients, and count it: one of 1 or less makes none larger."""
        if self._scaler is None or self._scaler.get_scale() <= 1:
            return False
        self.probes += 1
        return True

    def end_step(self) -> None:
        """Forget the scaler: the next step scales its own loss."""
        self._scaler = None
