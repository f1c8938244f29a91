"""A program recorded, and the data flow of its run."""

from __future__ import annotations

import pytest

from tests.support.flow import Flow
from torchparity import capture


@pytest.fixture
def recorded(tmp_path):
    def run(program, *, model=None, level="L1", steps=1, **fields):
        with capture(tmp_path / "run", model=model, level=level, overwrite=True, **fields) as recording:
            for _ in range(steps):
                program()
                recording.step()
        return Flow(tmp_path / "run")

    return run
