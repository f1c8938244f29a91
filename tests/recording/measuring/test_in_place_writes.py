"""In-place writes, with those that do not bump Tensor._version: what was measured before is measured again."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.models import WITHOUT_THE_FLAT_TENSOR, WritesBetween, flat_parameters
from tests.support.runs import values, weights_of_linear
from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture


def test_running_statistics_are_seen_as_they_change(tmp_path):
    norm, x = nn.BatchNorm1d(2), torch.randn(4, 2) + 3
    with capture(tmp_path, task="tensor"):
        norm(x)
        norm(x)

    assert values(tmp_path, "Functional.batch_norm.0.forward", place=1) == [0, 0]
    assert values(tmp_path, "Functional.batch_norm.1.forward", place=1) == pytest.approx((x.mean(0) * 0.1).tolist())


def test_memory_shared_with_numpy_is_looked_at_again(tmp_path):
    array = np.zeros(2, np.float32)
    with capture(tmp_path, task="tensor"):
        tensor = torch.from_numpy(array)
        torch.cos(tensor)
        array += 4
        torch.cos(tensor)

    assert values(tmp_path, "Torch.cos.1.forward") == [4, 4]


def test_replaced_data_are_seen(tmp_path):
    parameter = nn.Parameter(torch.ones(2))
    with capture(tmp_path, task="tensor"):
        torch.sin(parameter)
        parameter.data = torch.full((2,), 5.0)
        torch.sin(parameter)

    assert values(tmp_path, "Torch.sin.1.forward") == [5, 5]


@pytest.mark.parametrize(
    "twin_of",
    [
        pytest.param(lambda tensor: tensor.data, id="data"),
        pytest.param(lambda tensor: torch.empty(0).set_(tensor), id="set_"),
    ],
)
def test_a_write_through_another_tensor_of_the_same_memory_is_seen(tmp_path, twin_of):
    tensor = torch.ones(2)
    twin = twin_of(tensor)  # counts versions of its own
    with capture(tmp_path, task="tensor"):
        torch.exp(tensor)
        twin.fill_(5)
        torch.exp(tensor)
        tensor.add_(1)
        torch.exp(twin)

    assert values(tmp_path, "Torch.exp.0.forward") == [1, 1]
    assert values(tmp_path, "Torch.exp.1.forward") == [5, 5]
    assert values(tmp_path, "Torch.exp.2.forward") == [6, 6]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_operator_that_writes_below_the_versions_is_seen(tmp_path, operators, requires_grad):
    tensor = torch.zeros(2, requires_grad=requires_grad)
    with capture(tmp_path, task="tensor"), torch.no_grad():
        torch.exp(tensor)
        operators.scribble(tensor)
        torch.exp(tensor)

    assert values(tmp_path, "Ops.torchparity_tests.scribble.0.forward") == [0, 0]
    assert values(tmp_path, "Torch.exp.1.forward") == [9, 9]


def test_functions_that_write_without_an_underscore_have_inputs_of_before_and_are_seen(tmp_path):
    data, low, high = torch.arange(8.0), torch.tensor([100.0]), torch.tensor([-100.0])
    scale, zero, on = torch.ones(1), torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.int64)
    below, noise = -torch.ones(8), torch.zeros(8)
    with capture(tmp_path):
        torch.exp(low)
        torch.fused_moving_avg_obs_fake_quant(data, on, on, low, high, scale, zero, 0.5, 0, 255, -1)
        torch.exp(low)
        torch._C._nn.rrelu_with_noise(below, noise, 0.1, 0.3, True)

    records = open_run(tmp_path).part().records
    observed = records["Torch.fused_moving_avg_obs_fake_quant.0.forward"].input_args
    assert observed[3].statistics.max == 100 and observed[4].statistics.max == -100
    assert low.item() != 100
    assert records["Torch.exp.1.forward"].input_args[0].statistics.max == low.item()
    (leaky,) = [record for name, record in records.items() if "rrelu_with_noise" in name]
    assert noise.max() > 0
    assert leaky.input_args[1].statistics.max == 0


def test_memory_that_becomes_shared_with_other_processes_is_looked_at_again(tmp_path):
    tensor = torch.zeros(2)
    with capture(tmp_path):
        torch.exp(tensor)
        tensor.share_memory_()
        child = multiprocessing.get_context("fork").Process(target=tensor.fill_, args=(6,))
        child.start()
        child.join()
        torch.exp(tensor)

    assert tensor.tolist() == [6, 6]
    records = open_run(tmp_path).part().records
    assert records["Torch.exp.1.forward"].input_args[0].statistics.max == 6


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_parameter_that_is_written_below_its_version_is_looked_at_again(level, tmp_path):
    model = nn.Linear(2, 2, bias=False)
    with capture(tmp_path, model=model, level=level):
        for value in (1.0, 2.0):
            model.weight.data.fill_(value)
            model(torch.ones(1, 2))

    records = open_run(tmp_path).part().records
    seen = [records[f"Module.Linear.forward.{number}"].parameters["weight"].statistics.max for number in range(2)]
    assert seen == [1, 2]


def test_what_is_written_between_stop_and_start_is_looked_at_again(tmp_path):
    x = torch.zeros(2)
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    for value in (1.0, 2.0):
        x.data.fill_(value)
        debugger.start()
        torch.exp(x)
        debugger.stop()
    debugger.step()
    debugger.close()

    records = open_run(tmp_path).part().records
    seen = [records[f"Torch.exp.{number}.forward"].input_args[0].statistics.max for number in range(2)]
    assert seen == [1, 2]


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("threaded", [False, True])
def test_a_write_between_modules_without_a_new_version_is_seen(tmp_path, level, task, threaded):
    model = WritesBetween()
    with capture(tmp_path, model=model, level=level, task=task):
        if threaded:
            other = threading.Thread(target=model, args=(torch.ones(3),))
            other.start()
            other.join()
        else:
            model(torch.ones(3))

    records = open_run(tmp_path).part().records
    assert records["Module.first.Identity.forward.0"].output[0].statistics.max == 2
    assert records["Module.second.Identity.forward.0"].input_args[0].statistics.max == 6


def test_a_write_between_calls_of_a_module_recorded_alone_is_seen(tmp_path):
    module, x = nn.Identity(), torch.ones(3)
    with capture(tmp_path, model=nn.Sequential(module), level="L1") as recording:
        recording._session.module_dump(module, "alone")
        module(x)
        x.data.mul_(3)
        module(x)
        recording._session.module_dump_end()
        torch.exp(x)

    records = open_run(tmp_path).part().records
    assert records["Module.alone.Identity.forward.0"].input_args[0].statistics.max == 1
    assert records["Module.alone.Identity.forward.1"].input_args[0].statistics.max == 3
    assert records["Torch.exp.0.forward"].input_args[0].statistics.max == 3


def test_an_operator_that_writes_below_the_versions_is_seen_between_modules(tmp_path, operators):
    class Scribbles(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Identity(), nn.Identity()

        def forward(self, x):
            x = self.first(x + 1)
            operators.scribble(x)
            return self.second(x)

    model = Scribbles()
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(3))

    records = open_run(tmp_path).part().records
    assert records["Module.second.Identity.forward.0"].input_args[0].statistics.max == 9


@pytest.mark.parametrize("risk_level", ["CORE", "FOCUS", "ALL"])
def test_an_operator_that_is_not_recorded_is_seen_to_write(tmp_path, operators, risk_level):
    x = torch.ones(3)
    with capture(tmp_path, level="L1", risk_level=risk_level):
        torch.exp(x)
        operators.scribble(x)
        torch.exp(x)

    records = open_run(tmp_path).part().records
    assert [records[f"Torch.exp.{n}.forward"].input_args[0].statistics.max for n in (0, 1)] == [1, 9]


def test_the_values_are_those_before_and_after_an_in_place_call(tmp_path):
    x = torch.tensor([-1.0, 2.0])
    with capture(tmp_path, task="tensor"):
        x.relu_().add_(1)

    part = open_run(tmp_path).part()
    values = {item: part.tensor(leaf).array.tolist() for item, leaf in part.tensors()}

    assert values == {
        "Tensor.relu_.0.forward.input.0": [-1, 2],
        "Tensor.relu_.0.forward.output.0": [0, 2],
        "Tensor.add_.0.forward.input.0": [0, 2],
        "Tensor.add_.0.forward.output.0": [1, 3],
    }


def test_memory_that_changes_behind_the_version_is_looked_at_again(tmp_path):
    x = torch.ones(4)
    with capture(tmp_path, task="tensor"):
        x.mul(1.0)
        x.data.fill_(5)
        x.mul(1.0)
        x.numpy()[:] = 7
        x.mul(1.0)

    part = open_run(tmp_path).part()

    assert [part.tensor(part.records[f"Tensor.mul.{n}.forward"].input_args[0]).array[0] for n in range(3)] == [1, 5, 7]


@pytest.mark.parametrize(
    "update",
    [
        lambda x, mean, variance: torch.batch_norm_update_stats(x, mean, variance, 0.5),
        lambda x, mean, variance: torch.ops.aten._batch_norm_impl_index.default(
            x, None, None, mean, variance, True, 0.5, 1e-5, False
        ),
        lambda x, mean, variance: torch.ops.aten.batch_norm.default(
            x, None, None, mean, variance, True, 0.5, 1e-5, False
        ),
    ],
    ids=["update_stats", "impl_index", "aten"],
)
def test_running_statistics_are_what_they_were_before_and_after_any_operator(tmp_path, update):
    torch.manual_seed(0)
    mean, variance = torch.zeros(3), torch.ones(3)
    with capture(tmp_path):
        update(torch.randn(4, 3) + 5, mean, variance)
        mean.clone()

    records = open_run(tmp_path).part().records
    clone = records["Tensor.clone.0.forward"]
    (called,) = [record for name, record in records.items() if "batch_norm" in name]
    before = next(leaf for leaf in called.input_args if getattr(leaf, "shape", None) == (3,))
    assert before.statistics.max == 0
    assert clone.input_args[0].statistics.max == clone.output[0].statistics.max == mean.max().item()


def fill(flat):
    flat[:] = 7


WRITES = [fill, lambda flat: flat.fill_(7), lambda flat: torch.add(torch.full((6,), 6.0), 1, out=flat)]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("settings", [{"level": "L1"}, *WITHOUT_THE_FLAT_TENSOR], ids=str)
def test_a_twin_that_counts_the_same_versions_is_seen_to_write(tmp_path, settings, behind, write):
    model, flat = flat_parameters()
    x = torch.ones(1, 2)
    with torch.no_grad():
        while flat._version + behind < model.weight._version:
            flat.add_(0)
        with capture(tmp_path, model=model, **settings):
            model(x)
            assert flat._version + behind == model.weight._version
            write(flat)
            model(x)

    assert [weight.statistics.max for weight in weights_of_linear(tmp_path, settings["level"])] == [0, 7]
