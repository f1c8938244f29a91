"""Calls recorded in memory, for tests that check them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torchparity.check.cases import Case, cases_of
from torchparity.config import CaptureConfig
from torchparity.recording.session import Session
from torchparity.recording.writing.memory_output import MemoryOutput


def recorded_cases(work: Callable[[], object], *, task: str = "tensor") -> dict[str, Case]:
    """Run a function once under the recorder; return its calls by name, views among them."""
    output = MemoryOutput(task=task, level="L1", rank=0)
    session = Session(CaptureConfig(task=task, level="L1", views=True), output=output)
    try:
        session.start(torch.nn.Module())
        work()
        session.step()
        part = output.take()
        assert part is not None
        return {case.name: case for case in cases_of(part)}
    finally:
        session.close(None)
