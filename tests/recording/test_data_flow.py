"""Data flow in a recording: which record, parameter or outside data each tensor of a run came from."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from torchparity import capture, open_run
from torchparity.records import TensorLeaf


class Flow:
    """The producers of every item of a run, as texts."""

    def __init__(self, path):
        self.parts = {part.step: part for part in open_run(path).parts}

    def of(self, record, item, step=0):
        part = self.parts[step]
        leaf = {each.name: each.leaf for each in part.records[record].items()}[item]
        return [_text(origin) for origin in part.origins_of(leaf)]

    def all(self, step=0):
        part = self.parts[step]
        return {
            f"{record.name}.{item.name}": [_text(origin) for origin in part.origins_of(item.leaf)]
            for record in part.records.values()
            for item in record.items()
            if isinstance(item.leaf, TensorLeaf)
        }


def _text(origin):
    step = "" if origin.step is None else f"step{origin.step} "
    return origin.name if origin.kind == "record" else f"{step}{origin.kind} {origin.name}".strip()


@pytest.fixture
def recorded(tmp_path):
    def run(program, *, model=None, level="L1", steps=1, **fields):
        with capture(tmp_path / "run", model=model, level=level, overwrite=True, **fields) as recording:
            for _ in range(steps):
                program()
                recording.step()
        return Flow(tmp_path / "run")

    return run


def test_a_chain_of_calls_names_who_made_each_input(recorded):
    x = torch.randn(3, 4)

    flow = recorded(lambda: torch.exp(torch.sin(x) + 1))

    assert flow.of("Torch.sin.0.forward", "input.0") == ["outside"]
    assert flow.of("Torch.sin.0.forward", "output.0") == ["Torch.sin.0.forward"]
    assert flow.of("Tensor.add.0.forward", "input.0") == ["Torch.sin.0.forward"]
    assert flow.of("Torch.exp.0.forward", "input.0") == ["Tensor.add.0.forward"]


@pytest.mark.parametrize(
    "show",
    [
        lambda y: y.view(12),
        lambda y: y[1:],
        lambda y: y.t(),
        lambda y: y.detach(),
        lambda y: y.expand(2, 3, 4),
        lambda y: y.t().reshape(12),
        lambda y: y.t().contiguous(),
        lambda y: y.t().flatten(),
        lambda y: y[None].squeeze(0),
        lambda y: y.to(torch.float32),
    ],
)
def test_a_view_or_an_unrecorded_copy_comes_from_whoever_made_its_values(recorded, show):
    x = torch.randn(3, 4)

    flow = recorded(lambda: torch.exp(show(torch.sin(x))))

    origins = flow.of("Torch.exp.0.forward", "input.0")
    assert origins == ["Torch.sin.0.forward"] or origins == ["Tensor.__getitem__.0.forward"]


def test_what_a_call_hands_on_is_not_its_own(recorded):
    x = torch.randn(3)

    flow = recorded(lambda: F.dropout(torch.sin(x), training=False).to(torch.float32).exp())

    assert flow.of("Functional.dropout.0.forward", "output.0") == ["Torch.sin.0.forward"]
    assert flow.of("Tensor.to.0.forward", "output.0") == ["Torch.sin.0.forward"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.sin.0.forward"]


def test_a_call_that_writes_in_place_made_what_is_there(recorded):
    x = torch.randn(3)

    def program():
        y = torch.sin(x)
        y.add_(1)
        F.relu(y, inplace=True)
        return y.exp()

    flow = recorded(program)

    assert flow.of("Tensor.add_.0.forward", "input.0") == ["Torch.sin.0.forward"]
    assert flow.of("Functional.relu.0.forward", "input.0") == ["Tensor.add_.0.forward"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Functional.relu.0.forward"]


@pytest.mark.parametrize(
    ("write", "record"),
    [
        (lambda y, v: y.__setitem__(1, v), "Tensor.__setitem__.0.forward"),
        (lambda y, v: y[1].add_(v), "Tensor.add_.0.forward"),
        (lambda y, v: y[1].copy_(v), "Tensor.copy_.0.forward"),
        (lambda y, v: torch.cos(v, out=y[1]), "Torch.cos.0.forward"),
    ],
)
def test_a_part_that_is_written_leaves_several_producers(recorded, write, record):
    x, v = torch.randn(3, 4), torch.randn(4)

    def program():
        y = torch.sin(x)
        write(y, v)
        return y.exp()

    flow = recorded(program)

    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.sin.0.forward", record]


def test_out_is_made_by_the_call(recorded):
    x, y = torch.randn(3), torch.zeros(3)

    flow = recorded(lambda: torch.sin(x, out=y).exp())

    assert flow.of("Torch.sin.0.forward", "input.out") == ["outside"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.sin.0.forward"]


def test_of_many_writes_to_parts_the_newest_are_told(recorded):
    def program():
        y = torch.empty(20)
        for index in range(20):
            y[index] = index
        return y.exp()

    origins = recorded(program).of("Tensor.exp.0.forward", "input.0")

    assert origins == ["uninitialised", *(f"Tensor.__setitem__.{index}.forward" for index in range(13, 20))]


@pytest.mark.parametrize(
    "make",
    [
        lambda y: torch.empty(6, 4),
        torch.empty_like,
        lambda y: y.new_empty(6, 4),
        lambda y: torch.empty_strided((6, 4), (4, 1)),
        lambda y: y.new_empty_strided((6, 4), (4, 1)),
    ],
)
def test_memory_is_uninitialised_until_it_is_written(recorded, make):
    x = torch.randn(6, 4)

    def program():
        y = torch.sin(x)
        buffer = make(y)
        buffer.index_put_((torch.arange(6),), y)
        buffer.exp()
        buffer.copy_(y)
        return buffer.cos()

    flow = recorded(program)

    made = next(name for name in flow.parts[0].records if "empty" in name)
    assert flow.of(made, "output.0") == ["uninitialised"]
    assert flow.of("Tensor.index_put_.0.forward", "input.0") == ["uninitialised"]
    assert flow.of("Tensor.exp.0.forward", "input.0") == ["uninitialised", "Tensor.index_put_.0.forward"]
    assert flow.of("Tensor.cos.0.forward", "input.0") == ["Tensor.copy_.0.forward"]


def test_a_tensor_that_grows_is_uninitialised_in_part(recorded):
    x = torch.randn(3)

    flow = recorded(lambda: torch.sin(x).resize_(30).exp())

    assert "uninitialised" in flow.of("Tensor.exp.0.forward", "input.0")


def test_zeros_are_made_by_their_call(recorded):
    flow = recorded(lambda: torch.zeros(3).exp())

    assert flow.of("Tensor.exp.0.forward", "input.0") == ["Torch.zeros.0.forward"]


def test_parameters_and_buffers_have_the_model_s_names(recorded):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    x = torch.randn(5, 4)

    flow = recorded(lambda: model(x), model=model)

    assert flow.of("Functional.linear.0.forward", "input.1") == ["parameter 0.weight"]
    assert flow.of("Functional.batch_norm.0.forward", "input.2") == ["buffer 1.running_var"]
    assert flow.of("Functional.batch_norm.0.forward", "input.bias") == ["parameter 1.bias"]


def test_a_parameter_without_a_model_has_no_name(recorded):
    weight = nn.Parameter(torch.randn(3))
    x = torch.randn(3, requires_grad=True)

    flow = recorded(lambda: torch.mul(weight, x))

    assert flow.of("Torch.mul.0.forward", "input.0") == ["parameter"]
    assert flow.of("Torch.mul.0.forward", "input.1") == ["outside"]


def test_tied_weights_have_their_first_name(recorded):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight

    flow = recorded(lambda: model(torch.ones(2, 4)), model=model)

    assert flow.of("Functional.linear.1.forward", "input.1") == ["parameter 0.weight"]


def test_batch_norm_writes_its_buffers(recorded):
    model = nn.BatchNorm1d(4)
    x = torch.randn(5, 4)

    def program():
        model(x)
        model.eval()(x)
        model(x)
        model.train()

    flow = recorded(program, model=model)

    written = ["buffer running_mean", "Functional.batch_norm.0.forward"]
    assert flow.of("Functional.batch_norm.1.forward", "input.1") == written
    assert flow.of("Functional.batch_norm.2.forward", "input.1") == written
    assert flow.of("Functional.batch_norm.1.forward", "input.0") == ["outside"]


@pytest.mark.parametrize("kind", ["foreach", "loop", "fused"])
def test_an_optimizer_wrote_the_weights_of_the_next_step(recorded, kind):
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=kind == "foreach", fused=kind == "fused")
    x = torch.randn(2, 4)

    def program():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    flow = recorded(program, model=model, steps=3)

    writer = {
        "foreach": "Torch._foreach_addcdiv_.0.forward",
        "loop": "Tensor.addcdiv_.0.forward",
        "fused": "Torch._fused_adamw_.0.forward",
    }[kind]
    assert flow.of("Functional.linear.0.forward", "input.1", step=0) == ["parameter 0.weight"]
    for step in (1, 2):
        origins = flow.of("Functional.linear.0.forward", "input.1", step=step)
        assert origins == ["parameter 0.weight", f"step{step - 1} earlier {writer}"]


def test_gradients_come_from_the_backward_that_returned_them(recorded):
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), foreach=False)
    x = torch.randn(2, 4)

    def program():
        model(x).sum().backward()
        optimizer.step()

    flow = recorded(program, model=model)

    assert flow.of("Tensor.add_.0.forward", "input.1") == ["Functional.linear.0.backward"]


def test_a_gradient_that_nobody_saw_is_never_from_outside(recorded):
    x = torch.randn(2, 4)
    weight = torch.randn(4, requires_grad=True)

    def program():
        for _ in range(2):
            (torch.sin(x) * weight).sum().backward()
        torch.exp(weight.grad)

    flow = recorded(program, list=["exp"])

    assert flow.of("Torch.exp.0.forward", "input.0") == ["unknown"]


def test_a_cache_of_keys_grows_over_steps(recorded):
    cache, tokens = torch.zeros(3, 4), iter(range(3))

    def program():
        cache[next(tokens)] = torch.randn(4)
        torch.exp(cache)

    flow = recorded(program, steps=3)

    assert flow.of("Torch.exp.0.forward", "input.0", step=2) == [
        "outside",
        "step0 earlier Tensor.__setitem__.0.forward",
        "step1 earlier Tensor.__setitem__.0.forward",
        "Tensor.__setitem__.0.forward",
    ]


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
