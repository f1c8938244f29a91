"""A step that is over waits for its devices as an object that can be printed."""

from __future__ import annotations

import pytest
import torch

from torchparity.recording import capture
from torchparity.recording.step.pending_step import PendingStep
from torchparity.recording.step.recorder import Recorder


@pytest.fixture
def steps(monkeypatch):
    """How each step prints when it is taken, and the steps."""
    taken: list[tuple[str, PendingStep]] = []
    take = Recorder.take_step

    def noted(recorder, number):
        step = take(recorder, number)
        taken.append((repr(step), step))
        return step

    monkeypatch.setattr(Recorder, "take_step", noted)
    return taken


def test_a_step_says_what_it_waits_for(steps, tmp_path):
    tensor = torch.ones(2)
    with capture(tmp_path, level="L1"):
        tensor.exp().add(1)

    ((text, step),) = steps
    assert text == "<PendingStep 2 drafts, 3 measurements on cpu, waiting>"
    assert repr(step) == "<PendingStep 2 drafts, 3 measurements on cpu, filled in>"


def test_waiting_fills_in_the_drafts(steps, tmp_path):
    model, tensor = torch.nn.Tanh(), torch.zeros(2)
    with capture(tmp_path, model=model, task="structure"):  # which writes no records, so nobody waits
        model(tensor)

    ((_, step),) = steps
    assert "waiting" in repr(step)
    records = step.records()
    assert [record.name for record, _ in records] == ["Torch.tanh.0.forward", "Module.Tanh.forward.0"]
    assert [record.output[0].statistics.zero_count for record, _ in records] == [2, 2]
    assert "filled in" in repr(step)
    encoded, left_out = step.encoded()
    assert encoded.records == 2 and left_out == []
