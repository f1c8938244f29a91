"""The overflow flag of a device that saturates: noticed when it goes up, and left for the training to clear."""

from __future__ import annotations

from tests.simulation import NEEDS_TORCH
from tests.support.processes import run_python

PROGRAM = """
import sys, os
import torch
import torchparity
from torchparity.simulation import NpuBehaviour, SaturatedOverflow, simulate_npu

os.chdir(sys.argv[1])
simulate_npu(NpuBehaviour(faults=(SaturatedOverflow("matmul", call=None),)))
large = torch.full((2, 2), 300.0).half().npu()
small = torch.ones(2, 2).half().npu()
with torchparity.capture("run", level="L1", task="overflow_check", overflow_nums=-1) as recording:
    small @ small
    large @ large          # 0 goes up
    large @ large          # was up
    recording.step()
    torch.npu.utils.clear_npu_overflow_flag()
    small @ small
    large @ large          # 1 goes up again
print("flag", torch.npu.utils.get_npu_overflow_flag())
print([(part.step, list(part.records)) for part in torchparity.open_run("run").parts])
"""


@NEEDS_TORCH
def test_a_flag_that_goes_up_is_an_overflow_and_stays_up(tmp_path):
    done = run_python(PROGRAM, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [
        "flag True",
        "[(0, ['Tensor.matmul.1.forward']), (1, ['Tensor.matmul.1.forward'])]",
    ]
