"""Data flow past what is not recorded: filters, modules alone, memory that nobody can watch; and what it keeps."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from torchparity import capture


def test_lineage_passes_through_calls_that_are_left_out(recorded):
    x = torch.randn(3)

    flow = recorded(lambda: torch.exp(torch.cos(torch.sin(x)) + x), list=["sin", "exp"])

    assert flow.of("Torch.exp.0.forward", "input.0") == ["Torch.sin.0.forward", "outside"]


def test_lineage_passes_through_writes_that_are_left_out(recorded):
    x = torch.randn(3, 4)

    def program():
        y = torch.zeros(3, 4)
        y[0] = torch.sin(x[0])
        return torch.exp(y)

    flow = recorded(program, list=["sin", "exp"])

    assert flow.of("Torch.exp.0.forward", "input.0") == ["unknown", "Torch.sin.0.forward"]


def test_lineage_passes_through_calls_of_no_interest(recorded):
    x = torch.randn(3)

    flow = recorded(lambda: torch.exp(torch.abs(torch.exp(x))), risk_level="CORE")

    assert flow.of("Torch.exp.1.forward", "input.0") == ["Torch.exp.0.forward"]


def test_of_backwards_alone_there_is_no_forward_to_come_from(recorded):
    x = torch.randn(3, requires_grad=True)

    flow = recorded(lambda: torch.exp(torch.sin(x)).sum().backward(), data_mode=["backward"])

    assert set(map(tuple, flow.all().values())) <= {(name,) for name in [*flow.parts[0].records, "unknown"]}


def test_modules_alone_name_each_other(recorded):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    x = torch.randn(2, 4)

    flow = recorded(lambda: model(x), model=model, level="L0")

    assert flow.of("Module.0.Linear.forward.0", "input.0") == ["outside"]
    assert flow.of("Module.0.Linear.forward.0", "parameters.weight") == ["parameter 0.weight"]
    assert flow.of("Module.1.ReLU.forward.0", "input.0") == ["Module.0.Linear.forward.0"]
    assert flow.of("Module.Sequential.forward.0", "output.0") == ["Module.2.Linear.forward.0"]


class Between(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.first(x).sigmoid())


@pytest.mark.parametrize("has_gradients", [True, False])
def test_what_runs_unseen_between_modules_is_never_from_outside(recorded, has_gradients):
    model, x = Between(), torch.randn(2, 4)

    with torch.set_grad_enabled(has_gradients):
        flow = recorded(lambda: model(x), model=model, level="L0")

    assert flow.of("Module.second.Linear.forward.0", "input.0") == ["unknown"]
    assert flow.of("Module.Between.forward.0", "input.0") == ["outside"]


def test_modules_and_apis_name_the_api(recorded):
    model, x = Between(), torch.randn(2, 4)

    flow = recorded(lambda: model(x), model=model, level="mix")

    assert flow.of("Module.second.Linear.forward.0", "input.0") == ["Tensor.sigmoid.0.forward"]
    assert flow.of("Module.second.Linear.forward.0", "output.0") == ["Functional.linear.1.forward"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.from_numpy(np.ones(3, np.float32)),
        lambda: torch.frombuffer(bytearray(12), dtype=torch.float32),
    ],
)
def test_memory_that_cannot_be_watched_is_unknown(recorded, make):
    x = make()

    assert recorded(lambda: torch.exp(x)).of("Torch.exp.0.forward", "input.0") == ["unknown"]


def test_memory_whose_pointer_was_handed_out_is_unknown_too(recorded):
    x = torch.randn(3)

    def program():
        y = torch.sin(x)
        y.numpy()[0] = 5
        torch.exp(y)

    assert recorded(program).of("Torch.exp.0.forward", "input.0") == ["Torch.sin.0.forward", "unknown"]


def test_a_write_that_nobody_saw_is_unknown(recorded):
    x, y = torch.randn(3), torch.zeros(3)

    def program():
        torch.exp(y)
        with torch._C.DisableTorchFunction():
            y.add_(x)
        torch.cos(y)

    assert recorded(program).of("Torch.cos.0.forward", "input.0") == ["outside", "unknown"]


def test_inference_tensors_are_never_from_outside(recorded):
    with torch.inference_mode():
        x = torch.randn(3)

        def program():
            y = torch.sin(x)
            torch.exp(y)
            y.add_(1)
            torch.cos(y)

        flow = recorded(program)

    assert flow.of("Torch.sin.0.forward", "input.0") == ["unknown"]
    assert flow.of("Torch.exp.0.forward", "input.0") == ["Torch.sin.0.forward"]
    assert flow.of("Torch.cos.0.forward", "input.0") == ["Tensor.add_.0.forward"]


def test_a_loader_s_batch_comes_from_whoever_put_it_together(recorded):
    loader = DataLoader(torch.randn(4, 3), batch_size=2)

    flow = recorded(lambda: [torch.exp(batch) for batch in loader])

    assert flow.of("Torch.exp.1.forward", "input.0") == ["Torch.stack.1.forward"]


def test_a_recomputed_call_receives_what_the_first_received(recorded):
    x = torch.randn(3, requires_grad=True)

    def program():
        y = torch.sin(x)
        checkpoint(lambda y: torch.cos(torch.exp(y)), y, use_reentrant=False).sum().backward()

    flow = recorded(program)

    recomputed = [name for name, record in flow.parts[0].records.items() if record.is_recompute and "exp" in name]
    assert [flow.of(name, "input.0") for name in recomputed] == [["Torch.sin.0.forward"]]


def test_transforms_of_functions_are_traced_or_unknown(recorded):
    x = torch.randn(3)

    flow = recorded(lambda: torch.exp(torch.func.grad(lambda y: torch.sin(y).sum())(x)))

    assert ["outside"] not in [flow.of(name, "input.0") for name in flow.parts[0].records if "exp" in name]


def test_memory_that_is_used_again_has_no_former_producer(recorded):
    x = torch.randn(1000)

    def program():
        for _ in range(20):
            y = torch.sin(x)
            del y
            with torch._C.DisableTorchFunction():
                unseen = torch.randn(1000)
            torch.exp(unseen)
            del unseen

    flow = recorded(program, steps=2)

    for step in (0, 1):
        assert {tuple(flow.of(f"Torch.exp.{n}.forward", "input.0", step)) for n in range(20)} == {("outside",)}


def test_accumulated_gradients_are_those_of_several_passes(recorded):
    model = nn.Linear(4, 4, bias=False)
    x = torch.randn(2, 4)

    def program():
        for _ in range(2):
            model(x).sum().backward()
        torch.exp(model.weight.grad)
        model.zero_grad()

    flow = recorded(program, model=model, level="mix")

    assert flow.of("Torch.exp.0.forward", "input.0")[-1] == "Module.Linear.parameters_grad.1"


def test_values_and_statistics_tell_the_same_flow(recorded):
    x = torch.randn(3)

    def program():
        y = torch.sin(x)
        y[0] = 1
        torch.exp(y)

    flows = [recorded(program, task="statistics").all(), recorded(program, task="tensor").all()]

    assert flows[0] == flows[1]
    assert all(flows[0].values())


def test_a_parameter_that_is_replaced_is_found_again(recorded):
    model = nn.Linear(4, 4, bias=False)
    x = torch.randn(2, 4)

    def program():
        model(x)
        with torch._C.DisableTorchFunction():
            model.weight = nn.Parameter(torch.ones(4, 4))

    flow = recorded(program, model=model, steps=3)

    for step in range(3):
        assert flow.of("Functional.linear.0.forward", "input.1", step) == ["parameter weight"]


def test_weights_that_share_memory_are_told_by_all_their_names(recorded):
    flat = torch.randn(8)
    model = nn.Module()
    model.first, model.second = nn.Parameter(flat[:4]), nn.Parameter(flat[4:])

    flow = recorded(lambda: torch.exp(model.second), model=model)

    assert flow.of("Torch.exp.0.forward", "input.0") == ["parameter first", "parameter second"]


def test_no_tensor_is_kept_alive(tmp_path):
    x = torch.randn(3)
    with capture(tmp_path / "run", level="L1") as recording:
        kept = [torch.sin(x), torch.empty(3), torch.zeros(3)]
        kept[1][0] = 1
        references = [weakref.ref(tensor) for tensor in kept]
        recording.step()
        assert all(reference() is not None for reference in references)
        del kept
        gc.collect()

        assert [reference() for reference in references] == [None, None, None]


def test_tables_do_not_grow_with_the_steps(tmp_path):
    from torchparity.config import capture_config
    from torchparity.recording.session import Session

    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    config = capture_config({"dump_path": str(tmp_path), "task": "statistics", "level": "L1"}, source="test")
    session = Session(config)
    generations = session._recorder.measurements._generations
    sizes = []
    for _ in range(60):
        session.start(model)
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        session.stop()
        session.step()
        sizes.append((len(generations._pins), len(generations.lineage.sources), len(generations.lineage.versions)))
    session.close()

    assert max(sizes[5:]) <= sizes[5]
    assert (generations._pins, generations.lineage.sources, generations.lineage.versions) == ({}, {}, {})
