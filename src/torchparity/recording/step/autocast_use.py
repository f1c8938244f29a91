"""The use of autocast in a step: at a step's end nobody is inside of `torch.autocast` any more."""

from __future__ import annotations

import torch

_DEVICE_TYPES = ("cpu", "cuda", "xpu", "mps")


class AutocastUse:
    """The device types and dtypes of the first autocast under which a call of the step ran."""

    def __init__(self) -> None:
        self.seen: str | None = None  # such as "cuda bfloat16"
        kinds = (*_DEVICE_TYPES, str(torch._C._get_privateuse1_backend_name()))
        self._device_types = [kind for kind in kinds if torch.amp.is_autocast_available(kind)]

    def note(self) -> None:
        """Look at what is switched on in this thread."""
        kinds = [kind for kind in self._device_types if torch.is_autocast_enabled(kind)]
        dtypes = {kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.") for kind in kinds}
        self.seen = ", ".join(f"{kind} {dtype}" for kind, dtype in dtypes.items()) or None

    def take(self) -> str | None:
        """Return what was seen since the last time; None where it was nothing."""
        seen, self.seen = self.seen, None
        return seen
