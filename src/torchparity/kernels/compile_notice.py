"""A line for the user while kernels are compiled, which nobody should have to guess at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger("torchparity")
_PATIENCE = 0.5  # seconds; code that was compiled before is loaded in less


class CompileNotice:
    """Tells once that kernels for some device are being compiled, where that takes long enough to be noticed."""

    def __init__(self, device: str, *, patience: float = _PATIENCE) -> None:
        self._device, self._patience = device, patience
        self._has_told = False

    @contextmanager
    def while_compiling(self) -> Iterator[None]:
        """Compile inside; the line comes while that lasts."""
        if self._has_told:
            yield
            return
        timer = threading.Timer(self._patience, self._tell)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _tell(self) -> None:
        self._has_told = True
        _log.warning(
            "torchparity compiles its kernels for %s, which takes some seconds and is needed once.",
            self._device,
        )
