"""Standard output whose reader may have closed it."""

from __future__ import annotations

import os
import sys


def forget_stdout() -> None:
    """Point stdout to nowhere, or Python fails once more when it flushes at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
