"""Call stacks lead to the user's code."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import capture


def test_stacks_lead_to_the_users_code(tmp_path):
    with capture(tmp_path):
        torch.exp(torch.ones(1))

    frames = open_run(tmp_path).part().stack_of("Torch.exp.0.forward")

    assert "test_call_stacks.py" in frames[0] and "torch.exp(torch.ones(1))" in frames[0]
    assert not [frame for frame in frames if "/torch/" in frame or "torchparity/capture" in frame]


def test_calls_of_one_line_share_a_stack_whatever_instruction_they_are(tmp_path):
    x = torch.ones(2)
    with capture(tmp_path):
        x.exp(), x.log()
        x.sin()

    stacks = [group.records for group in open_run(tmp_path).part().stacks]
    assert stacks == [["Tensor.exp.0.forward", "Tensor.log.0.forward"], ["Tensor.sin.0.forward"]]


def test_modules_have_their_call_stacks(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(1, 2))

    part = open_run(tmp_path).part()
    named = {name: group.frames for group in part.stacks for name in group.records}
    for record in ("Module.Sequential.forward.0", "Module.0.Linear.forward.0"):
        assert "test_modules_have_their_call_stacks" in named[record][0]


@pytest.mark.parametrize("all_frames", [False, True])
def test_all_frames_keeps_torchs_own(tmp_path, all_frames):
    model = nn.Linear(2, 2)
    with capture(tmp_path, level="L1", all_frames=all_frames):
        model(torch.ones(1, 2))

    (frames,) = [
        group.frames for group in open_run(tmp_path).part().stacks if "Functional.linear.0.forward" in group.records
    ]
    assert any("nn/modules/linear.py" in frame for frame in frames) == all_frames
    assert any("test_call_stacks.py" in frame for frame in frames)
