"""Scripted and traced modules: they are made as without a recording, and named as skipped."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchparity import open_run
from torchparity.recording import capture

# The call is the user's, and deprecated: a DeprecationWarning, with torch 2.15 a FutureWarning.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated")


def test_a_model_can_be_traced(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model):
        traced = torch.jit.trace(model, torch.ones(1, 2))

    assert torch.equal(traced(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_a_model_can_be_scripted_and_is_hooked_afterwards_as_before(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[1].register_forward_pre_hook(lambda module, args: None)
    scripted_alone = torch.jit.script(model[0])
    with capture(tmp_path, model=model):
        scripted = torch.jit.script(model[0])
        again = scripted(torch.ones(1, 2))
        model(torch.ones(1, 2)).sum().backward()

    assert torch.equal(again, scripted_alone(torch.ones(1, 2)))
    assert {name for name in open_run(tmp_path).part().records if name.startswith("Module")} == {
        *("Module.0.Linear.forward.0", "Module.1.ReLU.forward.0", "Module.Sequential.forward.0"),
        *("Module.Sequential.backward.0", "Module.1.ReLU.backward.0"),
        *("Module.0.Linear.backward.0", "Module.0.Linear.parameters_grad.0"),
    }
    assert len(model[1]._forward_pre_hooks) == 1 and not model[0]._forward_hooks
    assert not hasattr(torch.jit._recursive.create_script_module, "__wrapped__")


@pytest.mark.parametrize("task", ["statistics", "free_benchmark"])
def test_scripted_modules_are_named_as_passed_over(task, tmp_path, capsys):
    model = nn.Sequential(torch.jit.script(nn.Sequential(nn.Linear(2, 2))), nn.ReLU())
    with capture(tmp_path, model=model, task=task, level="mix"):
        model(torch.ones(1, 2))

    assert "Module.0 is scripted or traced and was skipped;" in capsys.readouterr().out


def test_the_optimizer_of_a_scripted_module_is_recorded(tmp_path, capsys):
    model = torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with capture(tmp_path, model=model):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    assert "not recorded" not in capsys.readouterr().out
    assert "Tensor.add_.0.forward" in open_run(tmp_path).part().records
