"""Modules: their records, their parents, and what is recorded where one raises or is interrupted."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.ao import quantization

from tests.support.runs import names_of
from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture


def test_modules_have_inputs_outputs_parameters_and_their_gradients(tmp_path):
    training = Training(ZOO["shared"])
    with capture(tmp_path, model=training.model, level="L0"):
        training.step()

    part = open_run(tmp_path).part()

    assert {"Module.fc.Linear.forward.0", "Module.fc.Linear.forward.1", "Module.Shared.forward.0"} <= set(part.records)
    assert {"Module.fc.Linear.backward.0", "Module.fc.Linear.backward.1"} <= set(part.records)
    assert set(part.records["Module.fc.Linear.forward.0"].parameters) == {"weight", "bias"}
    assert set(part.records["Module.fc.Linear.parameters_grad.0"].gradients) == {"weight", "bias"}
    assert not [name for name in part.records if "unused" in name or "frozen.Linear.parameters_grad" in name]
    assert part.construct["Module.fc.Linear.forward.0"] == "Module.Shared.forward.0"


def test_several_models_have_their_index_in_the_name(tmp_path):
    models = [nn.Linear(2, 2), nn.Linear(2, 2)]
    with capture(tmp_path, model=models, level="L0"):
        models[1](models[0](torch.ones(2)))

    assert names_of(tmp_path) == ["Module.0.Linear.forward.0", "Module.1.Linear.forward.0"]


def replaced(model):
    model[0] = nn.Linear(2, 2)


def exchanged(model):
    model[0], model[1] = model[1], model[0]


def parametrized(model):
    nn.utils.parametrizations.weight_norm(model[0])


def cleared(model):
    model[0]._forward_hooks.clear()
    model[0]._forward_pre_hooks = OrderedDict()


@pytest.mark.parametrize("change", [replaced, exchanged, parametrized, cleared])
def test_a_model_that_is_changed_between_two_batches_is_recorded_as_it_is(change, tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    with capture(tmp_path / "changed", model=model, level="L0") as recording:
        model(torch.ones(1, 2)).sum().backward()
        recording.step()  # the next one begins here
        change(model)
        model(torch.ones(1, 2)).sum().backward()
    with capture(tmp_path / "fresh", model=model, level="L0"):
        model(torch.ones(1, 2)).sum().backward()

    changed, fresh = open_run(tmp_path / "changed").parts[1], open_run(tmp_path / "fresh").part()
    assert list(changed.records) == list(fresh.records)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_another_model_started_within_a_step_is_recorded_too(tmp_path):
    first, second = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Conv1d(2, 2, 1))
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    for model, data in ((first, torch.ones(1, 2)), (second, torch.ones(1, 2, 2))):
        debugger.start(model=model)
        model(data).sum().backward()
        debugger.stop()
    debugger.step()
    debugger.close()

    names = open_run(tmp_path).part().records.keys()
    assert {"Module.0.Linear.forward.0", "Module.0.Conv1d.forward.0", "Module.0.Conv1d.backward.0"} <= names
    assert {"Module.0.Linear.parameters_grad.0", "Module.0.Conv1d.parameters_grad.0"} <= names


def test_lazy_modules_are_recorded_with_the_parameters_that_their_first_call_makes(tmp_path):
    model = nn.Sequential(nn.LazyLinear(3))
    with capture(tmp_path, model=model):
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    first, second = (part.records[f"Module.0.LazyLinear.forward.{number}"] for number in (0, 1))
    assert first.parameters == {} and set(second.parameters) == {"weight", "bias"}
    assert set(part.records["Module.0.LazyLinear.parameters_grad.0"].gradients) == {"weight", "bias"}


def test_a_module_that_raises_is_recorded_with_its_error(tmp_path):
    class Inner(nn.Module):
        def forward(self, x):
            raise ValueError("no such luck")

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.fc = Inner(), nn.Linear(2, 2)

        def forward(self, x):
            try:
                self.inner(x)
            except ValueError:
                return self.fc(x)

    model = Outer()
    with capture(tmp_path, model=model):
        model(torch.ones(1, 2))

    part = open_run(tmp_path).part()

    assert part.records["Module.inner.Inner.forward.0"].error == "ValueError: no such luck"
    assert part.records["Module.fc.Linear.forward.0"].error is None
    assert part.construct["Module.fc.Linear.forward.0"] == "Module.Outer.forward.0"
    assert part.records["Module.Outer.forward.0"].error is None


def test_calls_after_stop_are_not_recorded(tmp_path):
    model = nn.Linear(2, 2)
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    debugger.start(model)
    model(torch.ones(2))
    debugger.stop()
    model(torch.ones(2))
    debugger.step()
    debugger.close()

    assert list(open_run(tmp_path).part().records) == ["Module.Linear.forward.0"]


def test_modules_may_be_called_forward_and_backward(tmp_path):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.forward_net, self.backward_net = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.forward_net(x) + self.backward_net(x)

    model = Both()
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(1, 2)).sum().backward()

    found = set(open_run(tmp_path).part().records)
    nets = {
        f"Module.{net}.Linear.{way}.0" for net in ("forward_net", "backward_net") for way in ("forward", "backward")
    }
    assert nets <= found


def test_modules_can_be_fused_while_they_are_recorded(tmp_path):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    with capture(tmp_path, model=model):
        quantization.fuse_modules(model, [["0", "1", "2"]], inplace=True)
        model(torch.randn(1, 1, 5, 5))

    assert open_run(tmp_path).part().problems == []


class Inner(nn.Module):
    def forward(self, x, interrupt):
        y = x * 2
        if interrupt:
            raise KeyboardInterrupt
        return y


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, interrupt=False):
        return self.inner(x, interrupt)


def call_deeper(model, x):
    def deeper():
        return model(x)

    return (lambda: deeper())()


@pytest.mark.parametrize("call", [lambda model, x: model(x), call_deeper])
def test_what_comes_after_an_interrupted_module_is_not_inside_it(tmp_path, call):
    model, x = Outer(), torch.ones(1)
    with capture(tmp_path, model=model):
        with pytest.raises(KeyboardInterrupt):
            model(x, interrupt=True)
        call(model, x)

    part = open_run(tmp_path).part()
    assert part.construct["Module.Outer.forward.1"] is None
    assert part.construct["Module.inner.Inner.forward.1"] == "Module.Outer.forward.1"
    assert "interrupted" in part.records["Module.inner.Inner.forward.0"].error
    assert part.construct["Tensor.mul.1.forward"] == "Module.inner.Inner.forward.1"


class Catching(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        try:
            return self.inner(x, True)
        except KeyboardInterrupt:
            return x.sin()


def test_calls_after_an_interrupted_module_are_not_inside_it(tmp_path):
    model = Outer()
    with capture(tmp_path, model=model):
        with pytest.raises(KeyboardInterrupt):
            model(torch.ones(1), interrupt=True)
        torch.ones(1).exp()

    part = open_run(tmp_path).part()
    assert part.construct["Tensor.exp.0.forward"] is None
    for name in ("Module.Outer.forward.0", "Module.inner.Inner.forward.0"):
        assert "interrupted" in part.records[name].error


def test_an_interrupt_that_a_module_catches_is_told_of_the_one_inside(tmp_path):
    model = Catching()
    with capture(tmp_path, model=model):
        model(torch.ones(1))

    records = open_run(tmp_path).part().records
    assert "interrupted" in records["Module.inner.Inner.forward.0"].error
    assert records["Module.Catching.forward.0"].error is None
