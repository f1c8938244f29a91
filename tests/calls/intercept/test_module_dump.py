"""module_dump: one module recorded alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torchparity
from tests.support.runs import records_of
from torchparity import open_run
from torchparity.errors import ConfigError
from torchparity.recording import PrecisionDebugger, capture


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x):
        return self.block(self.first(x))


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_module_dump_records_one_module_and_nothing_inside_it(tmp_path, level):
    net = Net()
    debugger = PrecisionDebugger(dump_path=tmp_path, level=level, task="tensor")
    debugger.start(net)
    x = torch.ones(1, 2)
    debugger.module_dump(net.block, "chosen")
    y = F.relu(net(x))
    debugger.module_dump_end()
    net.first(x)
    debugger.stop()
    y.sum().backward()
    debugger.step()
    debugger.close()

    records = records_of(tmp_path)
    forward = [name for name in records if "forward" in name and "ones" not in name]
    # Numbers go on while others are skipped: they do not depend on what is recorded.
    after = {"L0": ["Module.first.Linear.forward.1"], "L1": ["Functional.linear.2.forward"]}
    after["mix"] = after["L1"] + after["L0"]
    assert forward == ["Module.chosen.Sequential.forward.0", *after[level]]
    assert "Module.chosen.Sequential.backward.0" in records
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_module_dump_numbers_calls_and_has_parameter_gradients(tmp_path):
    fc = nn.Linear(2, 2)
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.start()
    total = 0
    for _ in range(2):
        debugger.module_dump(fc, "fc")
        debugger.module_dump(fc, "fc")
        total = total + fc(torch.ones(1, 2)).sum()
        debugger.module_dump_end()
    total.backward()
    debugger.close()

    names = [name for name in records_of(tmp_path) if name.startswith("Module")]
    assert sorted(names) == [
        *("Module.fc.Linear.backward.0", "Module.fc.Linear.backward.1"),
        *("Module.fc.Linear.forward.0", "Module.fc.Linear.forward.1", "Module.fc.Linear.parameters_grad.0"),
    ]
    assert not fc.weight._post_accumulate_grad_hooks


def test_module_dump_is_a_function_of_the_package_too(tmp_path):
    fc = nn.Linear(2, 2)
    with pytest.raises(ConfigError, match=r"module_dump\(\) needs a PrecisionDebugger"):
        torchparity.module_dump(fc, "fc")
    PrecisionDebugger(dump_path=tmp_path).start()
    torchparity.module_dump(fc, "fc")
    fc(torch.ones(1, 2))
    torchparity.module_dump_end()
    PrecisionDebugger.close()

    assert "Module.fc.Linear.forward.0" in records_of(tmp_path)


def test_module_dump_that_is_never_ended_ends_with_stop(tmp_path):
    net = Net()
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.start()
    debugger.module_dump(net.block, "chosen")
    debugger.stop()
    net(torch.ones(1, 2))
    debugger.start()
    net(torch.ones(1, 2))
    debugger.close()

    assert "Functional.linear.0.forward" in records_of(tmp_path)
    assert not [name for name in records_of(tmp_path) if "chosen" in name]


def test_module_dump_used_wrongly_says_so(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    with pytest.raises(ConfigError, match=r"module_dump\(\) without start"):
        debugger.module_dump(nn.ReLU(), "relu")
    debugger.start()
    with pytest.raises(ConfigError, match="takes a module, not a str"):
        debugger.module_dump("relu", "relu")
    with pytest.raises(ConfigError, match="needs a name"):
        debugger.module_dump(nn.ReLU(), "")
    debugger.module_dump_end()


def test_one_module_alone_can_be_recorded_in_a_block(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model, level="mix") as recording:
        recording.module_dump(model[1], "chosen")
        model(torch.ones(1, 2))
        recording.module_dump_end()

    assert [name for name in open_run(tmp_path).part().records if "forward" in name] == ["Module.chosen.ReLU.forward.0"]
