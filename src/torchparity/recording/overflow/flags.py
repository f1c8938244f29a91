"""The overflow flags of devices that saturate instead of giving infinities.

They are read and never cleared: the training's own GradScaler looks at them too, and would not skip its step.
So a flag that is up already tells nothing until the training has cleared it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torchparity.devices import device_for


class OverflowFlags:
    """Notices when a device's flag goes up."""

    def __init__(self) -> None:
        self._is_up: dict[torch.device, bool] = {}

    def look(self, tensors: Iterable[torch.Tensor]) -> bool:
        """Read the flags of the tensors' devices; tell whether one went up since the last time."""
        has_risen = False
        for device in {tensor.device for tensor in tensors if tensor.device.type != "cpu"}:
            is_up = bool(device_for(device).has_overflowed(device))
            has_risen = has_risen or (is_up and not self._is_up.get(device, True))
            self._is_up[device] = is_up
        return has_risen
