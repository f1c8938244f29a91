"""Fixtures that record two programs and compare them."""

from __future__ import annotations

import pytest
import torch

import torchparity


@pytest.fixture
def record(tmp_path):
    """A function that records a program: one that returns a model and what to do in each step."""

    def run(name, program, *, steps=1, **settings):
        torch.manual_seed(0)
        model, step = program()
        with torchparity.capture(tmp_path / name, model=model, **{"level": "mix", **settings}) as recording:
            for _ in range(steps):
                step()
                recording.step()
        return tmp_path / name

    return run


@pytest.fixture
def verdict(record, tmp_path):
    """A function that records a candidate and a baseline, and returns the verdict on them."""

    def run(candidate, baseline, *, steps=1, **settings):
        record("candidate", candidate, steps=steps, **settings)
        record("baseline", baseline, steps=steps, **settings)
        return torchparity.compare(tmp_path / "candidate", tmp_path / "baseline").verdict

    return run
