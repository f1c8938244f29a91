"""What records are called, what they hold, and where they belong."""

from __future__ import annotations

import time
import types
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from tests.support.runs import names_of
from tests.support.zoo import ZOO, Training
from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture
from torchparity.records import TensorLeaf, ValueLeaf


def test_only_the_outermost_api_is_recorded_and_calls_are_counted(tmp_path):
    x = torch.randn(3, 4)
    with capture(tmp_path):
        F.cross_entropy(x, torch.tensor([0, 1, 2]))
        F.relu(x)
        F.relu(x) + 1

    assert names_of(tmp_path) == [
        "Torch.tensor.0.forward",
        "Functional.cross_entropy.0.forward",
        "Functional.relu.0.forward",
        "Functional.relu.1.forward",
        "Tensor.add.0.forward",
    ]


def test_numbers_restart_with_every_step(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path) as recording:
        torch.exp(x)
        recording.step()
        torch.exp(x)

    assert [list(part.records) for part in open_run(tmp_path).parts] == [["Torch.exp.0.forward"]] * 2


def test_numbers_do_not_depend_on_what_is_selected(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path, settings={"statistics": {"list": ["Torch.exp.1.forward", "relu"]}}):
        for _ in range(3):
            torch.relu(torch.exp(x))

    assert names_of(tmp_path) == [
        "Torch.relu.0.forward",
        "Torch.exp.1.forward",
        "Torch.relu.1.forward",
        "Torch.relu.2.forward",
    ]


def test_a_scope_is_a_closed_range(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path, settings={"statistics": {"scope": ["Torch.exp.1.forward", "Torch.relu.1.forward"]}}):
        for _ in range(3):
            torch.relu(torch.exp(x))

    assert names_of(tmp_path) == ["Torch.exp.1.forward", "Torch.relu.1.forward"]


def test_data_mode_selects_directions_and_roles(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with capture(tmp_path, settings={"statistics": {"data_mode": ["forward", "output"]}}):
        torch.exp(x).sum().backward()

    part = open_run(tmp_path).part()

    assert names_of(tmp_path, "backward") == []
    assert [item.name for item in part.records["Torch.exp.0.forward"].items()] == ["output.0"]


def test_backward_is_indexed_like_forward(tmp_path):
    x, weight, bias = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True), torch.randn(4)
    with capture(tmp_path):
        F.linear(x, weight, bias=bias).sum().backward()

    backward = open_run(tmp_path).part().records["Functional.linear.0.backward"]

    assert [leaf.shape for leaf in backward.input_args] == [(2, 4)]
    assert [leaf and leaf.shape for leaf in backward.output] == [(2, 3), (4, 3)]
    assert backward.output_kwargs == {"bias": None}


def test_a_tensor_used_twice_has_the_summed_gradient(tmp_path):
    x = torch.tensor([3.0], requires_grad=True)
    with capture(tmp_path):
        torch.mul(x, x).backward()

    backward = open_run(tmp_path).part().records["Torch.mul.0.backward"]

    assert [leaf.statistics.max for leaf in backward.output] == [6.0, 6.0]


def test_an_output_that_is_its_input_passes_the_gradient_on(tmp_path):
    x = torch.randn(3, requires_grad=True) * 1
    with capture(tmp_path, task="tensor"):
        (F.dropout(x, p=0.0) * 2).sum().backward()

    part = open_run(tmp_path).part()
    backward = part.records["Functional.dropout.0.backward"]

    assert part.tensor(backward.output[0]).array.tolist() == [2, 2, 2]


def test_a_second_backward_through_one_graph_is_kept_apart(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with capture(tmp_path):
        y = torch.exp(x).sum()
        y.backward(retain_graph=True)
        y.backward()

    assert {"Torch.exp.0.backward", "Torch.exp.0.backward#2"} <= set(names_of(tmp_path, "backward"))


def test_a_call_that_raises_is_recorded_and_recording_goes_on(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path):
        try:
            torch.matmul(x, torch.ones(5))
        except RuntimeError as error:
            message = str(error)
        torch.exp(x)

    records = open_run(tmp_path).part().records

    assert message in records["Torch.matmul.0.forward"].error
    assert "Torch.exp.0.forward" in records


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


def test_a_dataclass_is_recorded_field_by_field(tmp_path):
    @dataclass
    class Found:
        scores: torch.Tensor
        count: int
        hidden: list

    class Model(nn.Module):
        def forward(self, x):
            return Found(x * 2, 3, [x + 1])

    model = Model()
    with capture(tmp_path, level="L0", model=model):
        found = model(torch.ones(2, requires_grad=True))
        (found.scores.sum() * 5 + found.hidden[0].sum()).backward()

    records = open_run(tmp_path).part().records
    output = records["Module.Model.forward.0"].output[0]
    assert output["scores"].statistics.max == 2.0
    assert output["count"] == ValueLeaf("int", 3)
    flowing_in = records["Module.Model.backward.0"].input_args[0]
    assert flowing_in["scores"].statistics.max == 5.0
    assert flowing_in["hidden"][0].statistics.max == 1.0


def test_several_models_have_their_index_in_the_name(tmp_path):
    models = [nn.Linear(2, 2), nn.Linear(2, 2)]
    with capture(tmp_path, model=models, level="L0"):
        models[1](models[0](torch.ones(2)))

    assert names_of(tmp_path) == ["Module.0.Linear.forward.0", "Module.1.Linear.forward.0"]


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


def test_recomputation_is_marked_and_shifts_no_number(tmp_path):
    for name in ("checkpoint", "checkpoint-reentrant"):
        training = Training(ZOO[name])
        with capture(tmp_path / name, model=training.model):
            training.step()
        records = open_run(tmp_path / name).part().records
        again = [record for record in records.values() if record.is_recompute]

        assert {"Functional.gelu.0.forward#recompute", "Functional.gelu.1.forward#recompute"} <= set(records)
        assert all("#recompute" in record.name for record in again)
        assert [name for name in records if name.startswith("Functional.gelu") and name.endswith("forward")] == [
            "Functional.gelu.0.forward",
            "Functional.gelu.1.forward",
        ]


def test_calls_in_a_custom_backward_are_tagged(tmp_path):
    training = Training(ZOO["custom-function"])
    with capture(tmp_path):
        training.step()

    tagged = [record.name for record in open_run(tmp_path).part().records.values() if record.in_backward]

    assert len(tagged) == 2 and all(name.startswith("Tensor.mul") for name in tagged)


def test_stacks_lead_to_the_users_code(tmp_path):
    with capture(tmp_path):
        torch.exp(torch.ones(1))

    frames = open_run(tmp_path).part().stack_of("Torch.exp.0.forward")

    assert "test_recorder.py" in frames[0] and "torch.exp(torch.ones(1))" in frames[0]
    assert not [frame for frame in frames if "/torch/" in frame or "torchparity/capture" in frame]


def test_arguments_that_are_no_tensors_are_kept(tmp_path):
    x = torch.randn(2, 3)
    with capture(tmp_path):
        x.sum(dim=1, dtype=torch.float64)
        x[..., 0:2]

    records = open_run(tmp_path).part().records

    assert records["Tensor.sum.0.forward"].input_kwargs == {
        "dim": ValueLeaf("int", 1),
        "dtype": ValueLeaf("torch.dtype", "torch.float64"),
    }
    assert records["Tensor.__getitem__.0.forward"].input_args[1] == [
        ValueLeaf("Ellipsis"),
        ValueLeaf("slice", [0, 2, None]),
    ]


def test_sparse_meta_and_quantized_tensors_are_named_and_not_measured(tmp_path):
    with capture(tmp_path):
        torch.eye(3).to_sparse().coalesce()
        torch.empty(3, device="meta").add(1)
        torch.exp(torch.ones(1))

    part = open_run(tmp_path).part()
    leaf = part.records["Tensor.to_sparse.0.forward"].output[0]

    assert isinstance(leaf, TensorLeaf)
    assert (leaf.layout, leaf.statistics) == ("sparse_coo", None)
    assert part.records["Torch.exp.0.forward"].output[0].statistics is not None
    assert part.problems == []


def test_calls_without_a_tensor_are_no_records(tmp_path):
    with capture(tmp_path), torch.set_grad_enabled(False):
        torch.device("cpu")
        torch.full((2,), 3.0).exp()

    part = open_run(tmp_path).part()
    assert list(part.records) == ["Torch.full.0.forward", "Tensor.exp.0.forward"]
    assert {name for group in part.stacks for name in group.records} == set(part.records)
    assert set(part.construct) == set(part.records)


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


def test_calls_of_one_line_share_a_stack_whatever_instruction_they_are(tmp_path):
    x = torch.ones(2)
    with capture(tmp_path):
        x.exp(), x.log()
        x.sin()

    stacks = [group.records for group in open_run(tmp_path).part().stacks]
    assert stacks == [["Tensor.exp.0.forward", "Tensor.log.0.forward"], ["Tensor.sin.0.forward"]]
