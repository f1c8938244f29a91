"""Records say what happened, in corners where that is easily missed."""

from __future__ import annotations

import gc
import types
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.support.models import WITHOUT_THE_FLAT_TENSOR, flat_parameters
from tests.support.runs import weights_of_linear
from torchparity import open_run, to_torch
from torchparity.recording import PrecisionDebugger, capture


def tensor(part, leaf):
    return to_torch(part.tensor(leaf))


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_a_weight_that_autocast_casts_for_several_calls_has_the_gradient_of_each(tmp_path, level):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    inputs = [torch.randn(4, 3, requires_grad=True), 100 * torch.randn(4, 3, requires_grad=True)]
    with capture(tmp_path, model=model, level=level, task="tensor"):
        with torch.autocast("cpu", torch.bfloat16):
            total = sum(model(x).sum() for x in inputs) + functional.linear(inputs[0], model.weight).sum()
        total.backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    for number, x in enumerate([*inputs, inputs[0]]):
        with torch.autocast("cpu", torch.bfloat16):
            alone = functional.linear(x, model.weight, model.bias if number < 2 else None).sum()
        expected = torch.autograd.grad(alone, [x, model.weight, *([model.bias] if number < 2 else [])])
        outputs = part.records[f"Functional.linear.{number}.backward"].output
        for ours, truth in zip(outputs, expected, strict=False):
            assert ours.dtype == str(truth.dtype)
            assert torch.equal(tensor(part, ours), truth)


def test_a_network_that_uses_a_weight_often_under_autocast_has_its_gradient(tmp_path):
    torch.manual_seed(0)
    model, x = nn.RNN(3, 4), torch.randn(5, 2, 3)
    with capture(tmp_path, level="L1", task="tensor"), torch.autocast("cpu", torch.bfloat16):
        model(x)[0].sum().backward()

    part = open_run(tmp_path).part()
    weights = part.records["VF.rnn_tanh.0.backward"].output[2]
    for ours, parameter in zip(weights, model.parameters(), strict=True):
        assert torch.equal(tensor(part, ours), parameter.grad)


def test_to_compare_tensors_of_one_graph_is_no_failure(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with capture(tmp_path):
        y = x * 2
        z = y.sin()
        assert (z > y).shape == (3,) and not torch.equal(z, y) and not torch.isnan(z).any()
        z.sum().backward()

    assert open_run(tmp_path).part().problems == []


@pytest.mark.parametrize("settings", WITHOUT_THE_FLAT_TENSOR, ids=str)
@pytest.mark.parametrize("foreach", [True, False])
def test_an_optimizer_of_a_flat_twin_is_seen_to_write_the_weights(tmp_path, settings, foreach):
    model, flat = flat_parameters()
    optimizer = torch.optim.SGD([flat], lr=1.0, foreach=foreach)
    with capture(tmp_path, model=model, **settings):
        for _ in range(2):
            model(torch.ones(1, 2))
            flat.grad = -torch.ones(6)
            optimizer.step()

    assert [weight.statistics.max for weight in weights_of_linear(tmp_path, settings["level"])] == [0, 1]


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


def test_what_comes_after_an_optimizer_that_raises_is_not_inside_it(tmp_path):
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def refuse(*_):
        raise ValueError("no")

    with capture(tmp_path):
        weight.grad = torch.ones(2)
        handle = optimizer.register_step_pre_hook(refuse)
        with pytest.raises(ValueError, match="no"):
            optimizer.step()
        torch.ones(1).exp()
        handle.remove()
        optimizer.step()
        torch.ones(1).sin()

    construct = open_run(tmp_path).part().construct
    assert construct["Tensor.exp.0.forward"] is None and construct["Tensor.sin.0.forward"] is None
    assert "optimizer" in construct.values()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x.square()


def test_what_a_backward_that_makes_a_graph_calls_is_no_recomputation(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path):
        (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
        first.sum().backward()

    records = open_run(tmp_path).part().records
    assert records["Tensor.square.0.forward"].in_backward and not records["Tensor.square.0.forward"].is_recompute
    assert not any("#recompute" in name for name in records)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputation_is_one_also_where_others_make_graphs(tmp_path, use_reentrant):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path):
        y = torch.utils.checkpoint.checkpoint(lambda x: torch.sin(x).cos(), x, use_reentrant=use_reentrant)
        if use_reentrant:
            y.sum().backward()
        else:
            torch.autograd.grad(y.sum(), x, create_graph=True)

    assert open_run(tmp_path).part().records["Torch.sin.0.forward#recompute"].is_recompute


def test_parameters_that_are_frozen_for_a_while_have_their_gradients(tmp_path):
    gan = nn.ModuleDict({"judge": nn.Linear(2, 1), "maker": nn.Linear(2, 2)})
    with capture(tmp_path, model=gan) as recording:
        for step in range(3):
            if step:
                recording.step()
            gan["judge"].requires_grad_(True)
            gan["judge"](torch.ones(1, 2)).sum().backward()
            gan["judge"].requires_grad_(False)
            gan["judge"](gan["maker"](torch.ones(1, 2))).sum().backward()

    run = open_run(tmp_path)
    for step in range(3):
        assert set(run.part(step=step).records["Module.judge.Linear.parameters_grad.0"].gradients) == {"weight", "bias"}


def test_a_parameter_that_is_replaced_has_its_gradient(tmp_path):
    model = nn.Linear(2, 2)
    with capture(tmp_path, model=model):
        model.weight = nn.Parameter(torch.ones(2, 2))
        model(torch.ones(1, 2)).sum().backward()

    gradients = open_run(tmp_path).part().records["Module.Linear.parameters_grad.0"].gradients
    assert set(gradients) == {"weight", "bias"}


def test_an_optimizer_inside_of_backward_leaves_the_gradient_to_be_recorded(tmp_path):
    model = nn.Linear(2, 2)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda leaf: setattr(leaf, "grad", None))
    with capture(tmp_path, model=model):
        model(torch.ones(1, 2)).sum().backward()

    gradients = open_run(tmp_path).part().records["Module.Linear.parameters_grad.0"].gradients
    assert gradients["weight"].statistics.max == 1 and gradients["bias"].statistics.max == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_modules_are_named_as_passed_over(tmp_path, capsys):
    model = nn.Sequential(torch.jit.script(nn.Sequential(nn.Linear(2, 2))), nn.ReLU())
    with capture(tmp_path, model=model):
        model(torch.ones(1, 2))

    assert "Module.0 is scripted or traced and was passed over; next:" in capsys.readouterr().out


def test_gradients_that_come_after_their_step_are_counted(tmp_path, capsys):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path) as recording:
        y = x.exp()
        recording.step()
        y.sum().backward()

    assert "came too late, for calls of steps that had ended" in capsys.readouterr().out


def test_modules_have_their_call_stacks(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    with capture(tmp_path, model=model, level="L0"):
        model(torch.ones(1, 2))

    part = open_run(tmp_path).part()
    named = {name: group.frames for group in part.stacks for name in group.records}
    for record in ("Module.Sequential.forward.0", "Module.0.Linear.forward.0"):
        assert "test_modules_have_their_call_stacks" in named[record][0]


def test_an_error_that_a_function_of_ones_own_raises_keeps_nothing_alive(tmp_path):
    kept = []

    def fails(x):
        inside = x * 2
        kept.append(weakref.ref(inside))
        raise ValueError("no")

    owner = types.SimpleNamespace(fails=fails)
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    debugger.register_custom_api(owner, "fails")
    gc.disable()
    try:
        debugger.start()
        with pytest.raises(ValueError, match="no"):
            owner.fails(torch.ones(2))
        PrecisionDebugger.close()
        assert kept[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_weights_after_a_fused_optimizer_are_seen(tmp_path, kind, level):
    model = nn.Linear(4, 2, bias=False)
    optimizer = kind(model.parameters(), lr=0.1, fused=True)
    true = []
    with capture(tmp_path, model=model, level=level):
        for _ in range(3):
            true.append(model.weight.max().item())
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    assert [weight.statistics.max for weight in weights_of_linear(tmp_path, level)] == true


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


class Mixed(nn.Module):
    def forward(self, weight, x):
        return functional.linear(x, weight) + functional.linear(x * 3, weight) + weight.sum()


def test_a_weight_that_is_used_cast_and_uncast_has_its_gradient(tmp_path):
    torch.manual_seed(0)
    model, weight, x = Mixed(), torch.randn(8, 8, requires_grad=True), torch.randn(64, 8)
    with capture(tmp_path, model=model, level="L0", task="tensor"), torch.autocast("cpu", torch.bfloat16):
        model(weight, x).sum().backward()

    part = open_run(tmp_path).part()
    assert torch.equal(tensor(part, part.records["Module.Mixed.backward.0"].output[0]), weight.grad)


def test_a_part_of_a_cast_weights_gradient_that_nobody_asks_for_is_none(tmp_path):
    class Two(nn.Module):
        def forward(self, weight, x):
            return functional.linear(x, weight).sum(), functional.linear(x * 3, weight).sum() + weight.sum()

    torch.manual_seed(0)
    model, weight, x = Two(), torch.randn(8, 8, requires_grad=True), torch.randn(64, 8)
    with capture(tmp_path, model=model, level="L0", task="tensor"), torch.autocast("cpu", torch.bfloat16):
        model(weight, x)[1].backward()

    part = open_run(tmp_path).part()
    assert torch.equal(tensor(part, part.records["Module.Two.backward.0"].output[0]), weight.grad)


@pytest.mark.filterwarnings("error")
def test_a_module_that_casts_inside_of_an_autocast_of_its_own_has_its_gradients(tmp_path):
    class Own(nn.Module):
        def forward(self, weight, x):
            with torch.autocast("cpu", torch.bfloat16):
                return functional.linear(x, weight).float().sum() + weight.to(torch.complex64).abs().sum()

    torch.manual_seed(0)
    model, weight, x = Own(), torch.randn(8, 8, requires_grad=True), torch.randn(64, 8)
    with capture(tmp_path, model=model, level="L0", task="tensor"), torch.autocast("cpu", enabled=False):
        (model(weight, x) + 2 * model(weight, x)).backward()

    part = open_run(tmp_path).part()
    assert part.problems == []
    first, second = (tensor(part, part.records[f"Module.Own.backward.{call}"].output[0]) for call in range(2))
    assert torch.allclose(second, 2 * first) and torch.allclose(first + second, weight.grad, rtol=1e-2)


def test_parameters_that_take_turns_are_hooked_once(tmp_path):
    model, fast, x = nn.Linear(2, 2, bias=False), nn.Parameter(torch.randn(2, 2)), torch.ones(1, 2)
    with capture(tmp_path, model=model, level="L0") as recording:
        for _ in range(3):
            model(x).sum().backward()
            torch.func.functional_call(model, {"weight": fast}, (x,)).sum().backward()
            model(x).sum().backward()
            recording.step()

    for step in range(3):
        names = open_run(tmp_path).part(step=step).records
        assert sum("parameters_grad" in name for name in names) == 3
    assert not model.weight._post_accumulate_grad_hooks and not fast._post_accumulate_grad_hooks


class Lookahead(torch.optim.Optimizer):
    def __init__(self, base):
        self.base = base
        super().__init__(base.param_groups, {})

    @torch.no_grad()
    def step(self, closure=None):
        (parameter,) = self.base.param_groups[0]["params"]
        parameter.mul_(2)
        self.base.step()
        parameter.div_(2)


def test_an_optimizer_inside_of_another_ends_itself_alone(tmp_path):
    weight = nn.Parameter(torch.ones(2))
    optimizer = Lookahead(torch.optim.SGD([weight], lr=0.1))
    weight.grad = torch.ones(2)
    with capture(tmp_path):
        optimizer.step()
        torch.ones(1).exp()

    construct = open_run(tmp_path).part().construct
    assert construct["Tensor.mul_.0.forward"] == construct["Tensor.div_.0.forward"] == "optimizer"
    assert construct["Tensor.exp.0.forward"] is None


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


def test_what_backward_calls_is_seen_however_it_is_called(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with capture(tmp_path):
        torch.autograd.backward(Cube.apply(x).sum())

    assert open_run(tmp_path).part().records["Tensor.square.0.forward"].in_backward
