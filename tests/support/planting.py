"""A wrong kernel under one recorded call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faultbed.plant import Change, PlantedCall, sink
from torchparity.calls.guard.mode_stack import take_off


@contextmanager
def planted(record: str, change: Change | None) -> Iterator[None]:
    """Change the call of this name below the recorder, which sees nothing but its result; None changes nothing."""
    if change is None:
        yield
        return
    mode = PlantedCall(record, change)
    mode.begin_step(0)
    sink(mode)
    try:
        yield
    finally:
        take_off(mode)
