"""The number of cores that storing tensors may use beside a training."""

from __future__ import annotations

import os

_CORES_EACH = 4  # storing takes one core in so many and leaves the others to the training
_MOST = 4


def spare_cores() -> int:
    """Return how many cores may store tensors at once."""
    return min(_MOST, max(1, (os.cpu_count() or 1) // _CORES_EACH))
