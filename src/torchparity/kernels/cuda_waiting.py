"""Waiting for a CUDA device from a thread of ours while the user's threads may capture a CUDA graph."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


@contextmanager
def beside_captures() -> Iterator[None]:
    """Let this thread wait for the device without making a graph capture in another thread fail."""
    mode = ctypes.c_int(_THREAD_LOCAL)
    exchange = _exchange()
    if exchange is None:
        yield
        return
    exchange(ctypes.byref(mode))
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))


@cache
def _exchange() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
    except (OSError, AttributeError):
        return None


def wait_for(event: torch.cuda.Event) -> None:
    """Block until the device has reached an event."""
    with beside_captures():
        event.synchronize()


def copied_to_host(tensor: torch.Tensor, stream: torch.cuda.Stream) -> torch.Tensor:
    """Return a copy on the host, made on `stream`, without waiting for the whole device."""
    with beside_captures(), torch.cuda.stream(stream):
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        pinned.copy_(tensor, non_blocking=True)
        arrived = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        arrived.record(stream)
        arrived.synchronize()
    return pinned
