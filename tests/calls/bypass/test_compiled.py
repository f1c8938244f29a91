"""Regions under torch.compile are skipped as a whole and named, and are compiled no more often than without us."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.processes import run_python
from torchparity import open_run
from torchparity.recording import capture

# The compiler itself looks at .grad of tensors that are no leaves.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        y = torch.sin(self.fc(x))
        torch._dynamo.graph_break()
        return torch.cos(y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = Block(), nn.Linear(3, 3)

    def forward(self, x):
        return self.head(self.block(x)).sum()


def record(path, model, call, **settings):
    """Run three times; return the record names that are not made outside of the region, and the part."""
    with capture(path, model=model, **settings):
        for _ in range(3):
            call(torch.ones(2, 3)).backward()
    part = open_run(path).part()
    return [name for name in part.records if "ones" not in name and "parameters_grad" not in name], part


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_compiled_model_is_passed_over_and_named_once(tmp_path, backend, level, caplog, capsys):
    model = Net()
    compiled = torch.compile(model, backend=backend)

    names, part = record(tmp_path, model, compiled, level=level)

    assert names == []
    warnings = [
        entry.message for entry in caplog.records if "compiled" in entry.message and entry.levelname == "WARNING"
    ]
    assert len(warnings) == 1 and "Module.Net" in warnings[0]
    assert [problem.rpartition(": ")[2] for problem in part.problems] == ["Module.Net is compiled and was skipped."]
    assert "Module.Net is compiled and was skipped; next:" in capsys.readouterr().out


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_part_of_a_model_is_passed_over_and_the_rest_is_there(tmp_path, backend):
    torch.manual_seed(0)
    model = Net()
    plain = [p.grad.clone() for p in (model(torch.ones(2, 3)).backward(), *model.parameters())[1:]]
    model.zero_grad()
    model.block.compile(backend=backend)

    with capture(tmp_path, model=model, task="tensor"):
        model(torch.ones(2, 3)).backward()

    part = open_run(tmp_path).part()
    assert [name for name in part.records if name.endswith("forward") or ".forward." in name] == [
        *("Torch.ones.0.forward", "Functional.linear.0.forward", "Module.head.Linear.forward.0"),
        *("Tensor.sum.0.forward", "Module.Net.forward.0"),
    ]
    (problem,) = part.problems
    assert problem.endswith("Module.block.Block is compiled and was skipped.")
    assert all(p.grad.equal(grad) for p, grad in zip(model.parameters(), plain, strict=True))


def test_a_compiled_part_is_named_where_only_the_whole_model_is_hooked(tmp_path, capsys):
    model = Net()
    model.block.compile(backend="eager")

    with capture(tmp_path, model=model, task="free_benchmark", level="L1"):
        model(torch.ones(2, 3))

    assert "Module.block.Block is compiled and was skipped" in capsys.readouterr().out


def test_a_compiled_function_is_named_and_what_surrounds_it_is_recorded(tmp_path):
    @torch.compile(backend="eager")
    def wave(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(y)

    for run in ("first", "second"):  # the second time it is compiled already
        with capture(tmp_path / run):
            x = torch.ones(2, requires_grad=True)
            torch.exp(wave(x)).sum().backward()

        part = open_run(tmp_path / run).part()
        assert [name for name in part.records if "forward" in name] == [
            *("Torch.ones.0.forward", "Torch.exp.0.forward", "Tensor.sum.0.forward")
        ]
        (problem,) = part.problems
        assert "wave is compiled and was skipped." in problem


def test_recording_does_not_compile_again(tmp_path):
    compiled_frames = []

    def counting(graph, inputs):
        compiled_frames.append(graph)
        return graph.forward

    f = torch.compile(lambda x: torch.sin(x) + 1, backend=counting)
    f(torch.ones(2))
    with capture(tmp_path):
        f(torch.ones(2))
    f(torch.ones(2))

    assert len(compiled_frames) == 1


def test_an_error_in_a_compiled_region_leaves_recording_on(tmp_path):
    @torch.compile(backend="eager")
    def broken(x):
        torch._dynamo.graph_break()
        raise ValueError("no such luck")

    with capture(tmp_path):
        with pytest.raises(ValueError, match="no such luck"):
            broken(torch.ones(1))
        torch.exp(torch.ones(1))

    assert "Torch.exp.0.forward" in open_run(tmp_path).part().records
    assert torch._C._len_torch_function_stack() == 0


def test_a_user_mode_keeps_its_place(tmp_path):
    f = torch.compile(lambda x: torch.sin(x), backend="eager")
    with torch.device("meta"), capture(tmp_path), torch.device("cpu"):
        f(torch.ones(1))
        assert not torch.ones(1).is_meta
    assert torch._C._len_torch_function_stack() == 0


def test_a_compiler_that_is_loaded_during_the_recording_is_seen(tmp_path):
    code = (
        "import sys, torch; from torchparity.recording import capture\n"
        "with capture(sys.argv[1]):\n"
        "    loaded = 'torch._dynamo.eval_frame' in sys.modules\n"
        "    f = torch.compile(lambda x: torch.sin(x), backend='eager')\n"
        "    f(torch.ones(1))\n"
        "print(loaded)\n"
        "assert not hasattr(torch.compile, '__wrapped__')\n"
    )
    done = run_python(code, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    part = open_run(tmp_path).part()
    assert "Torch.ones.0.forward" in part.records and "Torch.sin.0.forward" not in part.records
    assert "<lambda> is compiled" in part.problems[0]


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


@pytest.mark.parametrize("compiles", ["the module", "a function that calls it"])
@pytest.mark.parametrize(
    "model",
    [nn.Sequential(nn.Linear(32, 32), nn.ReLU()), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)],
    ids=["linear", "transformer"],
)
def test_what_is_first_compiled_in_a_recording_is_compiled_once(tmp_path, model, compiles):
    model, x, graphs = model.eval(), torch.randn(3, 7, 32), []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    region = model if compiles == "the module" else lambda x: model(x)
    compiled = torch.compile(region, backend=count, fullgraph=True)
    with torch.no_grad():
        alone = model(x)
        for number in range(2):
            with capture(tmp_path / str(number), model=model):
                assert torch.equal(compiled(x), alone)
        assert torch.equal(compiled(x), alone)

    assert len(graphs) == 1


def test_hooks_come_back_in_their_order_after_a_compiled_region(tmp_path):
    model, calls = nn.Linear(3, 3), []
    model.register_forward_hook(lambda *_: calls.append("before"))
    with capture(tmp_path, model=model):
        model.register_forward_hook(lambda *_: calls.append("after"))
        order = list(model._forward_hooks)
        torch.compile(model, backend="eager")(torch.ones(1, 3))
        assert list(model._forward_hooks) == order
        calls.clear()
        model(torch.ones(1, 3))

    assert calls == ["before", "after"]
    assert "Module.Linear.forward.0" in open_run(tmp_path).part().records
    assert len(model._forward_hooks) == 2 and not model._forward_pre_hooks


def test_a_function_compiled_under_two_recordings_is_passed_over_by_both(tmp_path):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin() * 2, backend="eager")
    with capture(tmp_path / "a"), capture(tmp_path / "b"):
        compiled(torch.ones(2))

    for name in "ab":
        assert list(open_run(tmp_path / name).part().records) == ["Torch.ones.0.forward"]
