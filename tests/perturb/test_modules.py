"""Modules while a training is perturbed: what threads and backward call is seen."""

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


def in_a_thread(work):
    thread = Thread(target=work)
    thread.start()
    thread.join()


def test_a_model_that_another_thread_calls_is_perturbed(tmp_path, capsys):
    model = nn.Sequential(nn.Linear(2, 2), nn.GELU())

    watched(tmp_path, model, lambda: in_a_thread(lambda: model(torch.ones(1, 2))), pert_mode="bit_noise")

    assert capsys.readouterr().out.startswith("torchparity: perturbed 2 calls")


def test_a_module_inside_that_another_thread_calls_is_perturbed(tmp_path, capsys):
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.GELU()), nn.Linear(2, 2))

    def in_stages():
        in_a_thread(lambda: model[0](torch.ones(1, 2)))
        model[1](torch.ones(1, 2))

    watched(tmp_path, model, in_stages, pert_mode="bit_noise")

    assert capsys.readouterr().out.startswith("torchparity: perturbed 3 calls")


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
