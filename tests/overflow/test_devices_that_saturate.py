"""A training in fp16 attention on the simulated NPU: its own overflow is normal, that of a planted kernel is not."""

from __future__ import annotations

import json

import pytest
import torch

from tests.simulation import NEEDS_TORCH
from tests.support.processes import run_python
from torchparity import open_run
from torchparity.overflow.entry import Verdict, overflows_of

pytestmark = NEEDS_TORCH
PROGRAM = """
import json, os, sys
import torch
import torchparity
from torchparity.simulation import NanAt, NpuBehaviour, SaturatedOverflow, ScaledOutput, simulate_npu

def train(recording, size, steepness):
    torch.manual_seed(0)
    width = 16
    project = torch.nn.Linear(width, 3 * width).half().npu()
    optimizer = torch.optim.SGD(project.parameters(), lr=1e-4)
    for step in range(2):
        x = (torch.randn(4, width) * size).half().npu()
        q, k, v = project(x).chunk(3, -1)
        scores = torch.matmul(q, k.t())
        out = torch.matmul(torch.softmax(scores.float(), -1).half(), v)
        (out.float().square().mean() * steepness).backward()
        optimizer.step()
        optimizer.zero_grad()
        recording.step()

os.chdir(sys.argv[1])
for name, faults, size, steepness in json.loads(sys.argv[2]):
    simulate_npu(NpuBehaviour(faults=eval(faults)))
    torch.npu.utils.clear_npu_overflow_flag()
    with torchparity.capture(name, level="L1", task="overflow_check", overflow_nums=1) as recording:
        train(recording, size, steepness)
"""
SCENES = {
    "infinities": ("()", 300, "Torch.matmul.0", Verdict.NORMAL),
    "saturated": ("(SaturatedOverflow('mm', call=None),)", 300, "Torch.matmul.0", Verdict.NORMAL),
    "saturated-early": ("(SaturatedOverflow('mm', call=None, limit=2.0),)", 10, "Torch.matmul.0", Verdict.ABNORMAL),
    "nan-in-softmax": ("(NanAt('softmax', index=3),)", 1, "Torch.softmax.0", Verdict.ABNORMAL),
    "scaled": ("(ScaledOutput('mm', call=0, factor=1e9),)", 1, "Torch.matmul.0", Verdict.ABNORMAL),
    "steep": ("(SaturatedOverflow('mm', call=None),)", 4, "Torch.matmul.1.backward", Verdict.NORMAL),
    "in-backward": ("(NanAt('mm', call=2),)", 1, "Torch.matmul.1.backward", Verdict.ABNORMAL),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    scenes = [
        (name, faults, size, 1e4 if name.startswith("steep") else 1) for name, (faults, size, *_) in SCENES.items()
    ]
    done = run_python(PROGRAM, folder, json.dumps(scenes))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("scene", SCENES)
def test_normal_and_abnormal_are_told_apart(runs, scene):
    found = list(overflows_of(open_run(runs / scene).parts, torch.device("cpu")))

    assert [(each.name, each.verdict) for each in found] == [SCENES[scene][2:]]
