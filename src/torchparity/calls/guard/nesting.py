"""Whether a thread is inside of something that is recorded as one call, or passed over as a whole."""

from __future__ import annotations

import threading


class Covered(threading.local):
    """Shared by whoever wraps functions: inside of one the others stay silent, in compiled code modules too."""

    is_inside = False
    is_compiled = False

    @property
    def is_silent(self) -> bool:
        return self.is_inside or self.is_compiled
