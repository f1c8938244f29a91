"""A stretch of a test in which every wait for a CUDA device is an error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def no_waits() -> Iterator[None]:
    """Raise at whatever waits for the device."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # once in a process torch warns that it does not see every wait
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
