"""A program watched by task overflow_check."""

from __future__ import annotations

import pytest

from torchparity import capture, open_run
from torchparity.errors import RunNotFoundError


@pytest.fixture
def overflowing(tmp_path, monkeypatch):
    """Watch a program; return the records of each step that overflowed."""
    monkeypatch.chdir(tmp_path)

    def watch(program, *, steps=1, overflow_nums=-1, **fields):
        settings = {"task": "overflow_check", "overflow_nums": overflow_nums, "overwrite": True, **fields}
        with capture(tmp_path / "run", level="L1", **settings) as recording:
            for step in range(steps):
                program()
                if step < steps - 1:
                    recording.step()
        try:
            return {part.step: list(part.records) for part in open_run(tmp_path / "run").parts}
        except RunNotFoundError:
            return {}

    return watch
