"""What else people do while a recording is on: none of it may break, and none of it may make a record untrue."""

from __future__ import annotations

import copy
import ctypes
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from tests.conftest import ROOT
from torchparity import open_run
from torchparity.kernels.arenas.host import HostArena
from torchparity.recording import PrecisionDebugger, capture


def values(path, record, role="input_args", place=0):
    part = open_run(path).part()
    return part.tensor(getattr(part.records[record], role)[place]).array.tolist()


def test_the_public_name_works_again_and_again(tmp_path):
    code = (
        "import sys, torch, torchparity\n"
        "for n in range(3):\n"
        "    with torchparity.capture(sys.argv[1] + str(n)): torch.ones(1) + 1\n"
        "import torchparity.recording\n"
        "with torchparity.capture(sys.argv[1] + '3'): torch.ones(1) + 1\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == 4


def test_tensors_can_be_swapped(tmp_path):
    left, right = torch.zeros(2), torch.ones(2)
    with capture(tmp_path):
        torch.sin(left)
        torch.utils.swap_tensors(left, right)

    assert left.tolist() == [1, 1]


def test_a_model_can_be_copied_and_pickled(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model):
        twin = copy.deepcopy(model)
        twin(torch.ones(1, 2))
        torch.save(model, io.BytesIO())
        again = pickle.loads(pickle.dumps(model))
    again(torch.ones(1, 2))

    assert not [name for name in open_run(tmp_path).part().records if name.startswith("Module")]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_model_gives_the_same_and_is_passed_over(tmp_path, fullgraph):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.GELU())
    x = torch.randn(2, 3)
    expected = model(x)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=fullgraph)
    with capture(tmp_path, model=model):
        got = compiled(x)
        got.sum().backward()
        torch.exp(x)

    assert torch.equal(got, expected)
    assert "Torch.exp.0.forward" in open_run(tmp_path).part().records


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_model_can_be_traced(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with capture(tmp_path, model=model):
        traced = torch.jit.trace(model, torch.ones(1, 2))

    assert torch.equal(traced(torch.ones(1, 2)), model(torch.ones(1, 2)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
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


def test_stop_in_another_thread_does_no_harm(tmp_path):
    debugger = PrecisionDebugger(dump_path=tmp_path)
    debugger.start()
    torch.ones(1).exp()
    thread = threading.Thread(target=debugger.stop)
    thread.start()
    thread.join()
    torch.ones(1).log()
    debugger.close()
    while torch._C._len_torch_function_stack():
        torch.overrides._pop_mode()

    assert not [name for name in open_run(tmp_path).part().records if "log" in name]


def test_models_in_two_threads_keep_their_own_parents(tmp_path):
    models = [nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2)]

    def run(model):
        for _ in range(40):
            model(torch.ones(1, 4))

    with capture(tmp_path, model=models, level="L0"):
        threads = [threading.Thread(target=run, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    part = open_run(tmp_path).part()

    assert len(part.records) == 2 * 40 * 3
    for name, parent in part.construct.items():
        if ".Linear." in name:
            assert parent.split(".")[1] == name.split(".")[1]


def test_apis_of_a_model_that_runs_in_another_thread_are_recorded(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.ones(2, 3, requires_grad=True)
    with ThreadPoolExecutor(1) as pool, capture(tmp_path, level="mix", model=model):
        here = model(x)
        there = pool.submit(model, x).result()
        depth_after = pool.submit(torch._C._len_torch_function_stack).result()
        there.sum().backward()

    part = open_run(tmp_path).part()
    assert torch.equal(here, there)
    assert depth_after == 0
    for name in ("Functional.linear.1.forward", "Functional.linear.1.backward", "Functional.relu.1.forward"):
        assert name in part.records
    assert part.construct["Functional.linear.1.forward"] == "Module.0.Linear.forward.1"


def test_a_graph_from_another_thread_has_no_gradient_rather_than_a_part_of_it(tmp_path):
    class Threaded(nn.Module):
        def forward(self, x):
            parts = []
            thread = threading.Thread(target=lambda: parts.append(torch.sin(x) * 2))
            thread.start()
            thread.join()
            return parts[0] + x * 3

    x = torch.randn(3, requires_grad=True)
    for _ in range(100):  # numbers of this thread's nodes run ahead of the other's
        h = x * 1
    model = Threaded()
    with capture(tmp_path, model=model):
        model(h).sum().backward()

    part = open_run(tmp_path).part()
    assert "Module.Threaded.forward.0" in part.records
    assert not [name for name in part.records if "Threaded.backward" in name]
    assert any("another thread" in problem for problem in part.problems)
    assert torch.allclose(x.grad, torch.cos(x) * 2 + 3)


def test_a_module_that_closes_over_an_older_tensor_has_its_gradient(tmp_path):
    class Closing(nn.Module):
        def forward(self, x):
            return x * self.older

    model = Closing()
    other = torch.tensor([2.0], requires_grad=True)
    model.older = torch.exp(other * 1)
    x = torch.tensor([3.0], requires_grad=True)
    with capture(tmp_path, model=model, task="tensor"):
        model(x * 1).backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    assert part.tensor(part.records["Module.Closing.backward.0"].output[0]).array.tolist() == x.grad.tolist()


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


def test_a_conjugate_is_not_its_origin(tmp_path):
    z = torch.tensor([1 + 2j])
    with capture(tmp_path, task="tensor"):
        torch.sin(z)
        torch.sin(z.conj())
        torch.abs(z.imag)
        torch.abs(z.conj().imag)

    assert values(tmp_path, "Torch.sin.1.forward") == [1 - 2j]
    assert values(tmp_path, "Torch.abs.1.forward") == [-2]


def test_hooks_on_leaves_go_with_the_step(tmp_path):
    leaf = nn.Parameter(torch.ones(2))
    model = nn.Identity()
    with capture(tmp_path, model=model) as recording:
        for _ in range(3):
            model(leaf).sum().backward()
            recording.save(leaf, "leaf")
            recording.step()

    assert not leaf._backward_hooks


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


def test_freed_storages_and_odd_arguments_cost_no_record(tmp_path):
    freed = torch.ones(4)
    freed.untyped_storage().resize_(0)
    with capture(tmp_path):
        torch.is_same_size(freed, freed)
        freed.shape  # noqa: B018
        torch.zeros_like(freed)
        torch.full((1,), 1.0).mul(float(10**300)).add(1, alpha=10**15)

    part = open_run(tmp_path).part()

    assert "Torch.zeros_like.0.forward" in part.records
    assert part.problems == []


def test_an_in_place_call_on_a_view_has_no_gradient_rather_than_a_wrong_one(tmp_path):
    x = torch.randn(3, 2, requires_grad=True)
    y = x * 1
    with capture(tmp_path, task="tensor"):
        y[1].mul_(3)
        (y * 2).sum().backward()

    records = open_run(tmp_path).part().records

    assert x.grad.tolist() == [[2, 2], [6, 6], [2, 2]]
    assert "Tensor.mul_.0.forward" in records
    # A known gap: autograd hides this gradient inside the copy into the base.
    assert "Tensor.mul_.0.backward" not in records


def test_a_shape_that_is_a_symbol_is_left_out_and_said(tmp_path, capsys):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    fake = FakeTensorMode(shape_env=ShapeEnv())
    x = fake.from_tensor(torch.ones(4, 5), symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC] * 2))
    assert isinstance(x.shape[0], torch.SymInt)
    with capture(tmp_path):
        y = torch.exp(x)
        torch.full((2,), 1.0).mul(3)

    part = open_run(tmp_path).part()
    assert y.shape == x.shape
    assert list(part.records) == ["Torch.full.0.forward", "Tensor.mul.0.forward"]
    (problem,) = part.problems
    assert "Torch.exp.0.forward could not be written" in problem
    line = capsys.readouterr().out
    assert "recorded 2 records" in line and "Torch.exp.0.forward could not be written" in line


class Boxed(torch.Tensor):
    """A wrapper without memory of its own, as quantised and distributed tensors are."""

    @staticmethod
    def __new__(cls, inner):
        kind = {"dtype": inner.dtype, "requires_grad": inner.requires_grad}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **kind)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(lambda t: t.inner if isinstance(t, Boxed) else t, (args, kwargs or {}))
        return tree_map(lambda t: Boxed(t) if isinstance(t, torch.Tensor) else t, func(*args, **kwargs))


@pytest.mark.parametrize(
    "settings", [{}, {"task": "tensor"}, {"summary_mode": "md5"}, {"tensor_list": ["exp"]}], ids=str
)
def test_wrapper_subclasses_work_as_without_a_recording(tmp_path, settings):
    def work():
        x, weight = Boxed(torch.ones(3)), nn.Parameter(Boxed(torch.full((3,), 2.0)))
        out = torch.exp(x) * weight
        out.sum().backward()
        x.add_(1)
        return out.inner, weight.grad.inner, x.inner

    expected = work()
    with capture(tmp_path, **settings):
        got = work()

    assert all(torch.equal(mine, plain) for mine, plain in zip(got, expected, strict=True))
    part = open_run(tmp_path).part()
    assert part.problems == [] and part.verify() == []
    assert part.records["Torch.exp.0.forward"].output[0].shape == (3,)
    assert part.records["Tensor.mul.0.backward"]


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


@pytest.fixture(scope="module")
def operators():
    """Operators of somebody's own: one that writes below torch's versions, one with the name of a question."""
    library = torch.library.Library("torchparity_tests", "DEF")

    def scribble(tensor):
        (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())[:] = [9.0] * tensor.numel()

    library.define("scribble(Tensor(a!) x) -> ()")
    library.impl("scribble", scribble, "CPU")
    library.define("dim(Tensor x) -> Tensor")
    library.impl("dim", lambda tensor: tensor * 2, "CPU")
    yield torch.ops.torchparity_tests
    library._destroy()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_operator_that_writes_below_the_versions_is_seen(tmp_path, operators, requires_grad):
    tensor = torch.zeros(2, requires_grad=requires_grad)
    with capture(tmp_path, task="tensor"), torch.no_grad():
        torch.exp(tensor)
        operators.scribble(tensor)
        torch.exp(tensor)

    assert values(tmp_path, "Ops.torchparity_tests.scribble.0.forward") == [0, 0]
    assert values(tmp_path, "Torch.exp.1.forward") == [9, 9]


def test_an_operator_with_the_name_of_a_question_or_a_view_is_recorded(tmp_path, operators):
    with capture(tmp_path):
        operators.dim(torch.ones(2))
        nn.functional.unfold(torch.ones(1, 1, 4, 4), 2)

    records = open_run(tmp_path).part().records
    assert "Ops.torchparity_tests.dim.0.forward" in records
    assert "Functional.unfold.0.forward" in records


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


def test_a_memory_that_was_made_smaller_than_its_tensor_is_not_read(tmp_path):
    class Shape(nn.Module):
        def forward(self, tensor):
            return tuple(tensor.shape)

    whole = torch.ones(10_000, 1_000)
    tensors = [whole, whole.T, whole[:, ::2]]
    whole.untyped_storage().resize_(8)
    model = Shape()
    with capture(tmp_path, model=model):
        for tensor in tensors:
            model(tensor)

    records = open_run(tmp_path).part().records
    assert [records[f"Module.Shape.forward.{number}"].input_args[0].statistics for number in range(3)] == [None] * 3


def test_what_is_captured_into_a_cuda_graph_is_passed_over_and_a_replay_is_noticed(tmp_path, monkeypatch, capsys):
    tensor = torch.zeros(2)

    def replay(graph):
        (ctypes.c_float * 2).from_address(graph)[:] = [7.0, 7.0]

    address = tensor.data_ptr()
    graph = torch.cuda.CUDAGraph
    monkeypatch.setattr(graph, "capture_begin", lambda graph: None)
    monkeypatch.setattr(graph, "capture_end", lambda graph: None)
    monkeypatch.setattr(graph, "replay", replay)
    with capture(tmp_path):
        torch.exp(tensor)
        graph.capture_begin(None)
        torch.sin(tensor)
        graph.capture_end(None)
        graph.replay(address)
        torch.exp(tensor)
    assert graph.replay is replay

    part = open_run(tmp_path).part()
    assert list(part.records) == ["Torch.exp.0.forward", "Torch.exp.1.forward"]
    assert part.records["Torch.exp.1.forward"].input_args[0].statistics.max == 7
    assert "captured into a CUDA graph was not recorded" in capsys.readouterr().out


def test_an_arena_that_fails_costs_what_it_had_in_hand_and_is_not_used_again(tmp_path, monkeypatch):
    flush, number = HostArena.flush, iter(range(1_000_000))

    def failing(arena):
        if arena._queue and next(number) >= 2:
            raise RuntimeError("no compiler")
        flush(arena)

    monkeypatch.setattr(HostArena, "flush", failing)
    with capture(tmp_path):
        for value in range(6):
            torch.full((2,), float(value)).exp()

    part = open_run(tmp_path).part()
    shown = {
        name: record.input_args[0].statistics.max
        for name, record in part.records.items()
        if name.startswith("Tensor.exp") and record.input_args[0].statistics
    }
    assert len(shown) >= 4
    assert all(value == int(name.split(".")[2]) for name, value in shown.items())
    assert any("no compiler" in problem for problem in part.problems)


class Overwriting(torch.autograd.Function):
    """As some fused kernels do: the gradient is computed where the incoming one lies, and no version tells."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        gradient.detach().numpy()[...] = 7.0
        return gradient


class Doubling(nn.Module):
    def forward(self, x):
        return Overwriting.apply(x)


def test_a_backward_that_overwrites_its_gradient_is_recorded_with_what_came_in(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with capture(tmp_path, level="mix", model=(model := Doubling())):
        (model(x) * 5).sum().backward()

    records = open_run(tmp_path).part().records
    module = records["Module.Doubling.backward.0"]
    assert module.input_args[0].statistics.max == 5.0
    assert module.output[0].statistics.max == 7.0
    assert records["Tensor.mul.1.backward"].output[0].statistics.max == 5.0


def test_an_optimizer_of_somebodys_own_may_write_below_the_versions(tmp_path):
    parameter = nn.Parameter(torch.ones(5))
    address = parameter.data_ptr()

    class Fused(torch.optim.Optimizer):
        def step(self, closure=None):
            ctypes.memmove(address, (ctypes.c_float * 5)(*[9.0] * 5), 20)

    optimizer = Fused([parameter], {})
    with capture(tmp_path):
        parameter.exp()
        optimizer.step()
        parameter.exp()

    records = open_run(tmp_path).part().records
    assert records["Tensor.exp.0.forward"].input_args[0].statistics.max == 1.0
    assert records["Tensor.exp.1.forward"].input_args[0].statistics.max == 9.0


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


def test_a_module_called_backward_can_be_asked_for(tmp_path):
    model = nn.ModuleDict({"backward_net": nn.Linear(2, 2)})
    wanted = "Module.backward_net.Linear.backward.0"
    with capture(tmp_path, model=model, level="L0", settings={"statistics": {"list": [wanted]}}):
        model["backward_net"](torch.ones(1, 2)).sum().backward()

    assert wanted in open_run(tmp_path).part().records


def test_a_saved_value_may_get_its_gradient_twice(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with capture(tmp_path) as recording:
        y = x * 2
        recording.save(y, "y")
        total = y.sum()
        total.backward(retain_graph=True)
        total.backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    assert {"y.0.debug", "y_grad.0.debug", "y_grad.0.debug#2", "Tensor.mul.0.backward#2"} <= set(part.records)


def test_a_second_record_of_one_name_costs_itself_alone(tmp_path):
    with capture(tmp_path) as recording:
        recording.save(torch.ones(1), "y_grad")
        y = torch.ones(3, requires_grad=True) * 2
        recording.save(y, "y")
        y.sum().backward()
        recording.step()
        torch.exp(y)

    first, second = open_run(tmp_path).parts
    assert first.records["y_grad.0.debug"].value.shape == (1,)
    assert any("y_grad.0.debug" in problem for problem in first.problems)
    assert list(second.records) == ["Torch.exp.0.forward"]


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


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_half_a_surrogate_pair_costs_a_letter_alone(task, tmp_path):
    class Named(nn.Module):
        def forward(self, x, name):
            return x + 1

    model = Named()
    with capture(tmp_path, model=model, level="L0", task=task):
        model(torch.ones(2), name="a\ud800")

    part = open_run(tmp_path).part()
    assert part.problems == []
    assert part.records["Module.Named.forward.0"].input_kwargs["name"].value == "a?"


def test_steps_may_end_while_another_thread_trains(tmp_path):
    model, is_over = nn.Linear(4, 4), threading.Event()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")

    def train():
        while not is_over.is_set():
            model(torch.ones(1, 4)).sum().backward()

    other = threading.Thread(target=train)
    other.start()
    for _ in range(20):
        debugger.start(model=model)
        model(torch.ones(1, 4)).sum().backward()
        debugger.stop()
        debugger.step()
    is_over.set()
    other.join()
    debugger.close()

    assert len(open_run(tmp_path).parts) == 20


def test_a_thread_has_no_parent_from_an_earlier_step(tmp_path):
    class Waits(nn.Module):
        def forward(self, x):
            places["inside"].wait()
            places["stopped"].wait()
            return x + 1

    places = {name: threading.Barrier(2, timeout=60) for name in ("inside", "stopped", "outside", "started")}
    model = nn.ModuleList([Waits(), nn.ReLU()])

    def work():
        model[0](torch.ones(2))
        places["outside"].wait()
        places["started"].wait()
        model[1](torch.ones(2))

    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    debugger.start(model=model)
    other = threading.Thread(target=work)
    other.start()
    places["inside"].wait()
    debugger.stop()
    debugger.step()
    places["stopped"].wait()
    places["outside"].wait()
    debugger.start(model=model)
    places["started"].wait()
    other.join()
    debugger.close()

    assert open_run(tmp_path).parts[-1].construct["Module.1.ReLU.forward.0"] is None


def test_keys_that_are_spelt_alike_are_items_of_their_own(tmp_path):
    class Sums(nn.Module):
        def forward(self, parts):
            return sum(parts.values())

    model = Sums()
    parts = {key: torch.full((2,), float(number), requires_grad=True) for number, key in enumerate(["a.b", "a_b", "a"])}
    with capture(tmp_path, model=model, level="L0"):
        model(parts).sum().backward()

    records = open_run(tmp_path).part().records
    seen = records["Module.Sums.forward.0"].input_args[0]
    assert sorted(leaf.statistics.max for leaf in seen.values()) == [0, 1, 2]
    assert len(records["Module.Sums.backward.0"].output[0]) == 3


class WritesBetween(nn.Module):
    """Changes what one module returned, without a new version, before the next receives it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Identity(), nn.Identity()

    def forward(self, x):
        x = self.first(x + 1)
        x.data.mul_(3)
        return self.second(x)


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


@pytest.mark.parametrize("level", ["debug", "L1"])
def test_a_value_saved_again_is_looked_at_again(tmp_path, level):
    x = torch.ones(3)
    with capture(tmp_path, level=level) as recording:
        recording.save(x, "x")
        x.data.mul_(3)
        recording.save({"nested": [x]}, "x")

    records = open_run(tmp_path).part().records
    assert records["x.0.debug"].value.statistics.max == 1
    assert records["x.1.debug"].value["nested"][0].statistics.max == 3


def nested(layout):
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.full((4, 3), 5.0)], layout=layout, requires_grad=True)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_nested_tensors_are_recorded_in_one_piece(tmp_path, layout, task):
    x = nested(layout)
    with capture(tmp_path, task=task, level="L1"):
        y = x * 2.0
        (y.values() if layout is torch.jagged else torch.nested.to_padded_tensor(y, 0.0)).sum().backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    received, returned = (
        part.records["Tensor.mul.0.forward"].input_args[0],
        part.records["Tensor.mul.0.forward"].output[0],
    )
    assert (received.statistics.max, received.statistics.min, received.requires_grad) == (5, 1, True)
    assert (returned.statistics.max, returned.statistics.min) == (10, 2)
    assert received.layout == returned.layout == ("jagged" if layout is torch.jagged else "nested")
    assert part.records["Tensor.mul.0.backward"].output[0].statistics.max == 2
    assert torch.equal(torch.ones_like(x.grad.values()) * 2, x.grad.values())
    if task == "tensor":
        assert values(tmp_path, "Tensor.mul.0.forward", "output") == y.detach().values().tolist()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_with_holes_is_named_and_not_measured(tmp_path):
    whole = torch.randn(2, 5, 3)
    holed = torch.nested.narrow(whole, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged)
    with capture(tmp_path, level="L1"):
        torch.sin(holed)

    leaf = open_run(tmp_path).part().records["Torch.sin.0.forward"].input_args[0]
    assert (leaf.layout, leaf.shape, leaf.statistics) == ("jagged", (2,), None)


THREADS = """
import sys, torch

if sys.argv[2] != "default":
    torch.set_num_threads(int(sys.argv[2]))

def train():
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8 * 900, 10)
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 3, 32, 32)).square().mean()
        loss.backward()
        optimizer.step()
    return [loss.item(), *(parameter.double().sum().item() for parameter in model.parameters())]

before, plain = torch.get_num_threads(), train()
from torchparity.recording import capture  # whatever it loads must not change the number either
with capture(sys.argv[1], task="statistics"):
    inside, recorded = torch.get_num_threads(), train()
print(before == inside == torch.get_num_threads(), plain == recorded == train())
"""


@pytest.mark.parametrize("threads", ["default", "1", "2", "3"])
def test_torch_keeps_its_number_of_threads_and_so_its_sums(tmp_path, threads):
    command = [sys.executable, "-c", THREADS, str(tmp_path), threads]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)

    assert done.stdout.splitlines()[-1] == "True True"


def test_a_thread_limit_of_the_environment_is_kept(tmp_path):
    command = [sys.executable, "-c", THREADS, str(tmp_path), "default"]
    limited = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, env=limited)

    assert done.stdout.splitlines()[-1] == "True True"


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_recording_may_begin_inside_a_mode_that_ends_before_it(tmp_path, level):
    model = nn.Linear(2, 2)
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level=level)
    try:
        with torch.device("meta"):
            debugger.start(model)
        model(torch.ones(1, 2))
        debugger.stop()
        debugger.step()
    finally:
        debugger.close()

    assert torch.ones(1).device.type == "cpu" and torch._C._len_torch_function_stack() == 0
    assert len(open_run(tmp_path).part().records) >= 1


def test_the_default_device_may_change_while_recording(tmp_path):
    try:
        torch.set_default_device("cpu")
        with capture(tmp_path, level="L1"):
            torch.set_default_device("meta")
            made = torch.ones(1)
            torch.set_default_device(None)
    finally:
        torch.set_default_device(None)

    assert made.device.type == "meta" and torch._C._len_torch_function_stack() == 0


def test_functions_without_a_hash_are_passed_over(tmp_path):
    class Unhashable:
        __hash__ = None

        def __call__(self, tensor):
            return tensor + 1

    with capture(tmp_path, level="L1"):
        function = Unhashable()
        result = torch.overrides.handle_torch_function(function, (torch.ones(1),), torch.ones(1))

    assert result.item() == 2


def test_backward_in_two_threads_leaves_torch_as_it_was(tmp_path):
    original = torch.autograd._engine_run_backward
    entered, proceed = ([threading.Event(), threading.Event()] for _ in range(2))

    def gradient(number):
        x = torch.ones(2, requires_grad=True)
        y = (x * 3).sum()

        def wait(_):
            entered[number].set()
            proceed[number].wait(5)

        y.register_hook(wait)
        return torch.autograd.grad(y, x)[0]

    class Force(nn.Module):
        def forward(self, number):
            return gradient(number)

    model = Force()
    with capture(tmp_path, model=model, level="mix"), ThreadPoolExecutor(2) as pool:
        first = pool.submit(model, 0)
        entered[0].wait(5)
        second = pool.submit(model, 1)
        entered[1].wait(5)
        proceed[0].set()
        first.result()
        proceed[1].set()

    assert first.result().tolist() == second.result().tolist() == [3, 3]
    assert torch.autograd._engine_run_backward is original


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_written_without_a_new_version_are_looked_at_again(tmp_path, layout):
    x = nested(layout).detach()
    with capture(tmp_path, level="L1") as recording:
        torch.sin(x)
        x.data.mul_(3)
        torch.sin(x)
        recording.save(x, "x")
        x.data.mul_(3)
        recording.save(x, "x")

    records = open_run(tmp_path).part().records
    assert [records[f"Torch.sin.{n}.forward"].input_args[0].statistics.max for n in (0, 1)] == [5, 15]
    assert [records[f"x.{n}.debug"].value.statistics.max for n in (0, 1)] == [15, 45]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_values_of_nested_tensors_are_kept_where_a_list_asks(tmp_path, layout):
    x = nested(layout)
    with capture(tmp_path, level="L1", tensor_list=["sin"]):
        torch.sin(x)

    assert values(tmp_path, "Torch.sin.0.forward") == x.detach().values().tolist()


@pytest.mark.parametrize("risk_level", ["CORE", "FOCUS", "ALL"])
def test_an_operator_that_is_not_recorded_is_seen_to_write(tmp_path, operators, risk_level):
    x = torch.ones(3)
    with capture(tmp_path, level="L1", risk_level=risk_level):
        torch.exp(x)
        operators.scribble(x)
        torch.exp(x)

    records = open_run(tmp_path).part().records
    assert [records[f"Torch.exp.{n}.forward"].input_args[0].statistics.max for n in (0, 1)] == [1, 9]


def test_at_level_l0_a_step_of_an_optimizer_that_calls_the_model_is_seen(tmp_path):
    model = WritesBetween()
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([weight], max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = model(weight * 1.0).sum()
        loss.backward()
        return loss

    with capture(tmp_path, model=model, level="L0", task="tensor"):
        optimizer.step(closure)
        assert torch._C._len_torch_function_stack() == 1
        model(torch.ones(3))

    assert torch._C._len_torch_function_stack() == 0
    for call in (0, 1):
        returned = values(tmp_path, f"Module.first.Identity.forward.{call}", "output")
        received = values(tmp_path, f"Module.second.Identity.forward.{call}")
        assert received == [3 * number for number in returned]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_an_optimizer_that_raises_leaves_nothing_behind(tmp_path, level):
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("no")

    model = WritesBetween()
    optimizer = Broken([nn.Parameter(torch.ones(1))], lr=0.1)
    with capture(tmp_path, model=model, level=level):
        with pytest.raises(RuntimeError, match="no"):
            optimizer.step()
        model(torch.ones(3))

    assert torch._C._len_torch_function_stack() == 0
    records = open_run(tmp_path).part().records
    assert records["Module.second.Identity.forward.0"].input_args[0].statistics.max == 6


class Squaring(torch.autograd.Function):
    """Whose backward calls torch."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return torch.mul(2 * x * gradient, 1.0)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_a_backward_inside_of_a_backward_calls_is_recorded(tmp_path, use_reentrant):
    layer, x = nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True)
    with capture(tmp_path, level="L1"):
        checkpoint(lambda t: Squaring.apply(layer(t)), x, use_reentrant=use_reentrant).sum().backward()

    records = open_run(tmp_path).part().records
    assert "Torch.mul.0.forward" in records and records["Torch.mul.0.forward"].in_backward


def test_two_recordings_in_two_threads_leave_torch_as_it_was(tmp_path):
    original = torch.autograd._engine_run_backward
    barrier = threading.Barrier(2, timeout=10)

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 1

        @staticmethod
        def backward(context, gradient):
            barrier.wait()  # both are in the middle of backward
            return gradient

    def work(number):
        with capture(tmp_path / str(number), level="L1"):
            x = torch.ones(2, requires_grad=True)
            Slow.apply(x).sum().backward()
        return x.grad.tolist()

    with ThreadPoolExecutor(2) as pool:
        gradients = list(pool.map(work, range(2)))

    assert gradients == [[1, 1]] * 2
    assert torch.autograd._engine_run_backward is original


def test_at_level_l0_what_an_optimizers_closure_writes_is_seen(tmp_path):
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

    def closure():
        hidden = first(torch.ones(2, 3))
        hidden.data.add_(100)
        loss = second(hidden).sum()
        loss.backward()
        return loss

    with capture(tmp_path, model=[first, second], level="L0"), ThreadPoolExecutor(1) as pool:
        optimizer.step(closure)
        pool.submit(optimizer.step).result()
        depth = pool.submit(torch._C._len_torch_function_stack).result()

    records = open_run(tmp_path).part().records
    assert records["Module.1.Linear.forward.0"].input_args[0].statistics.max > 90
    assert depth == 0
