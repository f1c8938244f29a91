"""Which step, which number and which parent a record has, and how long its call took."""

from __future__ import annotations

import time
import types

import torch
from torch import nn

from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture


def test_numbers_restart_with_every_step(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path) as recording:
        torch.exp(x)
        recording.step()
        torch.exp(x)

    assert [list(part.records) for part in open_run(tmp_path).parts] == [["Torch.exp.0.forward"]] * 2


def test_every_api_knows_its_module_in_forward_backward_and_optimizer(tmp_path):
    training = Training(ZOO["mlp"])
    with capture(tmp_path, model=training.model):
        training.step()

    part = open_run(tmp_path).part()

    assert part.construct["Functional.linear.0.forward"] == "Module.layers.0.Linear.forward.0"
    assert part.construct["Functional.linear.0.backward"] == "Module.layers.0.Linear.backward.0"
    assert part.construct["Functional.cross_entropy.0.forward"] is None
    assert part.construct["Tensor.lerp_.0.forward"] == "optimizer"
    assert part.construct["Module.layers.0.Linear.forward.0"] == "Module.layers.Sequential.forward.0"


def test_what_a_call_took_is_not_made_smaller_by_looking_at_its_inputs(tmp_path):
    pause = 0.05
    library = types.SimpleNamespace(slow=lambda *tensors: time.sleep(pause))
    large = [torch.ones(4_000_000) for _ in range(8)]  # measuring them takes about as long as the call
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level="L1")
    debugger.register_custom_api(library, "slow", "library")
    debugger.start()
    library.slow(*large)
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()

    assert open_run(tmp_path).part().records["library.slow.0.forward"].seconds >= pause


def test_a_call_that_outlives_its_step_is_left_out_of_the_next(tmp_path):
    class Ends(nn.Module):
        def forward(self, x):
            debugger.stop()
            debugger.step()
            debugger.start(model=self)
            return x + 1

    model = Ends()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    debugger.start(model=model)
    model(torch.ones(2))
    model(torch.ones(2))
    debugger.close()

    found = [set(part.records) for part in open_run(tmp_path).parts]
    assert all(len(records) <= 2 for records in found)
    assert "Tensor.add.0.forward" in found[1]


def test_gradients_that_come_after_their_step_are_counted(tmp_path, capsys):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path) as recording:
        y = x.exp()
        recording.step()
        y.sum().backward()

    assert "came too late, for calls of steps that had ended" in capsys.readouterr().out


def test_backward_after_stop_still_counts_until_step(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    x = torch.ones(2, requires_grad=True)
    debugger.start()
    y = torch.exp(x).sum()
    debugger.stop()
    torch.log(x)
    y.backward()
    debugger.step()
    debugger.close()

    assert list(open_run(tmp_path).part().records) == [
        "Torch.exp.0.forward",
        "Tensor.sum.0.forward",
        "Tensor.sum.0.backward",
        "Torch.exp.0.backward",
    ]


def test_a_gradient_that_comes_after_its_step_is_not_put_into_the_next(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path) as recording:
        y = torch.exp(x).sum()
        recording.step()
        y.backward()
        torch.log(x)

    assert not [name for name in open_run(tmp_path).part(step=1).records if "exp" in name]
