"""Trainings and torch itself go on as without a recording, in corners where that is hard."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.overrides import TorchFunctionMode

from tests.support.processes import ROOT
from torchparity import open_run
from torchparity.recording import PrecisionDebugger, capture
from torchparity.recording.step.recorder import Recorder

LEVELS = [("L0", True), ("L1", True), ("L1", False), ("mix", True)]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("level", "with_model"), LEVELS)
def test_a_transformer_in_evaluation_takes_its_fast_path(tmp_path, level, with_model, masked):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(3, 7, 32), torch.zeros(3, 7, dtype=torch.bool)
    padding[0, 4:] = True
    mask = padding if masked else None
    with torch.no_grad():
        alone = model(x, src_key_padding_mask=mask)
        with capture(tmp_path, model=model if with_model else None, level=level):
            recorded = model(x, src_key_padding_mask=mask)

    names = open_run(tmp_path).part().records
    assert torch.equal(alone, recorded)
    if level != "L0":
        assert "Torch._transformer_encoder_layer_fwd.1.forward" in names
    if level != "L1":
        assert "Module.layers.1.TransformerEncoderLayer.forward.0" in names


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_two_recordings_at_once_let_it_take_its_fast_path(tmp_path):
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x, padding = torch.randn(3, 7, 32), torch.zeros(3, 7, dtype=torch.bool)
    padding[0, 4:] = True
    with torch.no_grad():
        alone = model(x, src_key_padding_mask=padding)
        with capture(tmp_path / "a", model=model), capture(tmp_path / "b", level="L1"):
            recorded = model(x, src_key_padding_mask=padding)

    assert torch.equal(alone, recorded)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_compiled_transformer_in_evaluation_is_compiled_once(tmp_path, level):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x, graphs = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(3, 7, 32), []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(model, backend=count, fullgraph=True)
    with torch.no_grad():
        alone = compiled(x)
        for number in range(2):
            with capture(tmp_path / str(number), model=model, level=level):
                assert torch.equal(compiled(x), alone)
                assert torch.equal(model(x), alone)

    assert len(graphs) == 1


def test_a_function_compiled_under_two_recordings_is_passed_over_by_both(tmp_path):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin() * 2, backend="eager")
    with capture(tmp_path / "a"), capture(tmp_path / "b"):
        compiled(torch.ones(2))

    for name in "ab":
        assert list(open_run(tmp_path / name).part().records) == ["Torch.ones.0.forward"]


def test_what_asks_for_functions_of_a_tensors_own_is_answered_as_before(tmp_path):
    class Own(torch.Tensor):
        pass

    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    model.linear1.register_forward_hook(lambda *_: None)
    with torch.no_grad(), capture(tmp_path, level="L1"):
        model(torch.ones(1, 2, 32))
        model(torch.ones(1, 2, 32).as_subclass(Own))

    names = open_run(tmp_path).part().records
    assert not any("_transformer_encoder_layer_fwd" in name for name in names)


def test_attention_in_evaluation_takes_its_fast_path(tmp_path):
    torch.manual_seed(0)
    model, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(2, 5, 32)
    with torch.no_grad():
        alone = model(x, x, x)[0]
        with capture(tmp_path, model=model):
            recorded = model(x, x, x)[0]

    assert torch.equal(alone, recorded)
    assert "Torch._native_multi_head_attention.0.forward" in open_run(tmp_path).part().records


def train_on_old_views():
    torch.manual_seed(0)
    gradients = []
    for _ in range(30):
        x = torch.randn(64, requires_grad=True)
        y = x * 1.0
        view = y.view(8, 8)
        y.mul_(1.7)
        assert not torch.isnan(view).any() and (view > 0).any()
        ((y.sin() * 0.3).sum() + (y.exp() * 0.7).sum() + (view * 1.3).tanh().sum()).backward()
        gradients.append(x.grad)
    return torch.stack(gradients)


def test_to_look_at_a_view_of_what_was_written_changes_no_order(tmp_path):
    alone = train_on_old_views()
    with capture(tmp_path):
        recorded = train_on_old_views()

    assert torch.equal(alone, recorded)


TRANSFORMED = """
import sys, torch
from torchparity import capture, open_run
other = torch.randn(6, dtype=getattr(torch, sys.argv[2]))
strided = torch.randn(12)[::2]
with capture(sys.argv[1], task=sys.argv[3]):
    torch.func.functionalize(lambda x: x + other)(torch.ones(6))
    torch.func.grad(lambda x: (x * strided * other).sum())(torch.ones(6))
run = open_run(sys.argv[1]).part()
assert run.problems == [], run.problems
print(run.records["Tensor.add.0.forward"].input_args[1].statistics.max == other.float().max().item())
"""


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_plain_tensors_inside_of_a_transform_are_measured(tmp_path, dtype, task):
    command = [sys.executable, "-c", TRANSFORMED, tmp_path, dtype, task]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"


def test_modules_can_be_fused_while_they_are_recorded(tmp_path):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    with capture(tmp_path, model=model):
        quantization.fuse_modules(model, [["0", "1", "2"]], inplace=True)
        model(torch.randn(1, 1, 5, 5))

    assert open_run(tmp_path).part().problems == []


@dataclass(eq=False)
class Leaf:
    value: object
    others: object = None
    more: object = None
    parent: object = None


def test_objects_that_refer_to_one_another_are_looked_at_once(tmp_path):
    class Trees(nn.Module):
        def forward(self, root):
            return root.value * 2

    def tree(depth, parent):
        node = Leaf(torch.ones(2, requires_grad=True), parent=parent)
        if depth:
            node.others, node.more = tree(depth - 1, node), tree(depth - 1, node)
        return node

    model, circle = Trees(), []
    circle += [circle, circle, torch.ones(1)]
    with capture(tmp_path, model=model) as recording:
        model(tree(4, None)).sum().backward()
        recording.save(circle, "circle")

    part = open_run(tmp_path).part()
    assert part.problems == []
    root = part.records["Module.Trees.forward.0"].input_args[0]
    assert root["others"]["more"]["value"].statistics.max == 1 and root["others"]["parent"].type.endswith("Leaf")
    assert part.records["Module.Trees.backward.0"].output[0]["value"].statistics.max == 2


def names_on_the_stack():
    count = torch._C._len_torch_function_stack()
    return [type(torch._C._get_function_stack_at(index)).__name__ for index in range(count)]


def stop_in_a_backward_hook(debugger):
    y = torch.randn(3, requires_grad=True) * 2
    y.register_hook(lambda gradient: debugger.stop())
    y.sum().backward()


def stop_in_a_thread(debugger):
    thread = threading.Thread(target=debugger.stop)
    thread.start()
    thread.join()


@pytest.mark.parametrize("stop", [stop_in_a_backward_hook, stop_in_a_thread])
def test_after_a_stop_from_elsewhere_every_call_is_recorded_once(tmp_path, stop):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    debugger.start()
    stop(debugger)
    debugger.step()
    debugger.start()
    torch.ones(3).sin()
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()

    assert list(open_run(tmp_path).part(step=1).records) == ["Torch.ones.0.forward", "Tensor.sin.0.forward"]
    assert names_on_the_stack() == []


class Others(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_stop_in_a_backward_hook_leaves_the_modes_of_others(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    with Others():
        debugger.start()
        stop_in_a_backward_hook(debugger)
        debugger.step()
        PrecisionDebugger.close()
        assert names_on_the_stack() == ["Others"]
    assert names_on_the_stack() == []


def of_torch():
    return (
        torch.compile,
        torch.jit._recursive.create_script_module,
        torch.cuda.CUDAGraph.replay,
        torch.distributed.P2POp.__init__,
        vars(torch.distributed.P2POp)["__new__"],
        torch.distributed.all_reduce,
        torch.autograd._engine_run_backward,
        torch.overrides.has_torch_function,
        vars(nn.TransformerEncoderLayer).get("modules"),
    )


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_recordings_that_overlap_leave_torch_as_it_was(tmp_path, first_ends_first):
    before, model = of_torch(), nn.Linear(2, 2)
    debugger = PrecisionDebugger(dump_path=str(tmp_path / "a"), level="mix")
    debugger.start(model)
    block = capture(tmp_path / "b", model=model)
    block.__enter__()
    model(torch.ones(1, 2)).sum().backward()
    if first_ends_first:
        PrecisionDebugger.close()
        block.__exit__(None, None, None)
    else:
        block.__exit__(None, None, None)
        PrecisionDebugger.close()

    assert of_torch() == before


class LateError(Exception):
    pass


def late(number, frame, extra=None):
    raise LateError


def late_of_any(*_):
    raise LateError


def late_and_put_back(number, frame):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    raise LateError


class Late:
    def __call__(self, number, frame):
        raise LateError


class InheritsLate(Late):
    pass


HANDLERS = [late, late_of_any, late_and_put_back, functools.partial(late, extra=1), InheritsLate(), Late().__call__]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no alarms here")
@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_signals_handler_raises_reaches_the_user(tmp_path, monkeypatch, handler):
    original, before = Recorder.open, signal.signal(signal.SIGALRM, handler)

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGALRM)
        return original(*arguments, **options)

    try:
        with capture(tmp_path):
            monkeypatch.setattr(Recorder, "open", interrupted)
            with pytest.raises(LateError):
                torch.ones(1).exp()
            monkeypatch.undo()
            torch.ones(1).sin()
    finally:
        signal.signal(signal.SIGALRM, before)

    assert "Tensor.sin.0.forward" in open_run(tmp_path).part().records
