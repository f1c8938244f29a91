"""A process that ends without a word leaves whole runs, with the calls of every hooked model."""

from __future__ import annotations

import pytest

from tests.seeds.samples import run_sample
from torchparity import open_run

HOOKS = """
from torch_npu.hooks import register_acc_cmp_hook as hook, set_dump_path
"""
PTDBG = """
from ptdbg_ascend import acc_cmp_dump, register_hook, set_dump_path as set_path, set_dump_switch
def hook(model):
    register_hook(model, acc_cmp_dump)
def set_dump_path(path):
    set_path(path)
    set_dump_switch("ON")
"""
TRAINING = """
import torch
first, second = torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)
hook(first)
hook(second)
set_dump_path("./run.pkl")
second(torch.relu(first(torch.ones(1, 3)))).sum().backward()
{end}
"""


@pytest.mark.parametrize(("tool", "end", "code"), [(HOOKS, "", 0), (PTDBG, "raise SystemExit(5)", 5)])
def test_the_run_is_whole_and_has_both_models(tmp_path, tool, end, code):
    done = run_sample(tool + TRAINING.format(end=end), tmp_path)

    assert done.returncode == code, done.stderr
    (part,) = open_run(tmp_path / "run.pkl").parts
    assert not part.problems
    shapes = [part.record(f"Functional.linear.{number}.forward").output[0].shape for number in (0, 1)]
    assert shapes == [(1, 2), (1, 1)]
    assert "Functional.linear.0.backward" in part.records
