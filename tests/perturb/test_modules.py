"""Modules while a training is perturbed: none inside of the model is hooked, and threads and backward are seen."""

from __future__ import annotations

from threading import Thread

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchparity import PrecisionDebugger


def watched(folder, model, work, **fields):
    """Do some work while a model is perturbed."""
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=folder, **fields)
    debugger.start(model)
    work()
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()


def hooks_of(module):
    return [*module._forward_hooks, *module._forward_pre_hooks]


def test_modules_inside_of_a_model_have_no_hooks_of_ours(tmp_path):
    model, found = nn.Sequential(nn.Linear(2, 2), nn.GELU()), []

    watched(tmp_path, model, lambda: found.extend(map(hooks_of, model)), pert_mode="bit_noise")
    assert found == [[], []]

    watched(tmp_path, model, lambda: found.extend(map(hooks_of, model)), significance=2)
    assert all(found[2:])


def test_a_model_that_another_thread_calls_is_perturbed(tmp_path, capsys):
    model = nn.Sequential(nn.Linear(2, 2), nn.GELU())

    def in_a_thread():
        thread = Thread(target=lambda: model(torch.ones(1, 2)))
        thread.start()
        thread.join()

    watched(tmp_path, model, in_a_thread, pert_mode="bit_noise")

    assert capsys.readouterr().out.startswith("torchparity: perturbed 2 calls")


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Sequential(nn.Linear(4, 4), nn.GELU())

    def forward(self, values):
        return checkpoint(self.part, values, use_reentrant=False).sum()


def fixed_calls(folder, device, said):
    """Return what is said of fixing a model on a device that computes a module inside of it again."""
    model, values = Checkpointed().to(device, torch.bfloat16), torch.randn(3, 4, device=device).bfloat16()
    watched(folder, model, lambda: model(values).backward(), handler_type="fix", list=["gelu"])
    return said.readouterr().out


def test_a_call_inside_that_is_recomputed_is_fixed_as_the_first_was(tmp_path, capsys):
    assert "replaced the results of 2 calls" in fixed_calls(tmp_path, "cpu", capsys)


@pytest.mark.gpu
def test_a_call_that_autograd_s_thread_recomputes_is_fixed_too(cuda, tmp_path, capsys):
    assert "replaced the results of 2 calls" in fixed_calls(tmp_path, cuda, capsys)
