"""A call that is given another tensor than its partner: the verdict says what both runs give it."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.nn import functional

import torchparity
from tests.support.squared_step import squared_step

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])
BASELINES = pytest.mark.parametrize("is_rounded", [False, True], ids=["equal", "rounded"])


class Net(nn.Module):
    """Two branches that meet, with a small correction on the way; `given` changes what one of the calls is given."""

    def __init__(self, given=""):
        super().__init__()
        self.given = given
        self.norm, self.scale = nn.LayerNorm(32), nn.Parameter(1 + 0.1 * torch.randn(32))
        self.left, self.right, self.last = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        normed = self.norm(x)
        left, right = torch.tanh(self.left(normed)), torch.tanh(self.right(normed))
        corrected = left + 0.01 * torch.sin(right)
        hidden = functional.gelu(self.last(left if self.given == "before the correction" else corrected))
        total = hidden + (normed if self.given == "normed" else x)
        weight = self.norm.weight if self.given == "another weight" else self.scale
        total = functional.layer_norm(total, (32,), weight)
        left = right if self.given == "another branch" else left
        return right - total if self.given == "swapped" else total - right, torch.relu(left)


def rounded(model):
    """Return a model with weights that are off by a rounding or two."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 1e-7 * torch.randn(parameter.shape))
    return model


def program(given="", is_rounded=False):
    """Return a program that trains the net; one that is rounded has weights that are off by a rounding or two."""

    def start():
        x, model = torch.randn(8, 32), Net(given)
        model = rounded(model) if is_rounded else model
        optimizer = torch.optim.AdamW(model.parameters())

        def step():
            optimizer.zero_grad()
            one, other = model(x)
            (one * other).square().mean().backward()
            optimizer.step()

        return model, step

    return start


@pytest.fixture
def both_ways(record):
    """A function that records two programs, and returns the verdicts on one against the other and the other way."""

    def run(one, other, **settings):
        runs = record("one", one, **settings), record("other", other, **settings)
        return [torchparity.compare(*pair).verdict for pair in (runs, runs[::-1])]

    return run


@TASKS
@BASELINES
@pytest.mark.parametrize(
    ("given", "named", "mine", "other"),
    [
        ("before the correction", "Functional.linear.2.forward", "Torch.tanh.0.forward", "Tensor.add.0.forward"),
        ("normed", "Tensor.add.1.forward", "Functional.layer_norm.0.forward", "outside of the recording"),
        ("another branch", "Torch.relu.0.forward", "Torch.tanh.1.forward", "Torch.tanh.0.forward"),
    ],
)
def test_the_result_of_another_call_is_told(both_ways, task, is_rounded, given, named, mine, other):
    there, back = both_ways(program(given), program(is_rounded=is_rounded), steps=2, task=task)

    for found, sources in ((there, (mine, other)), (back, (other, mine))):
        assert (found.kind, found.first.record, found.first.values) == ("another call", named, sources)
        assert f"comes from {sources[0]}, in the baseline from {sources[1]}; it is off by" in found.sentence
        assert not found.also
        assert "different tensors" in found.advice


@TASKS
@BASELINES
def test_operands_that_were_swapped_are_told(verdict, task, is_rounded):
    found = verdict(program("swapped"), program(is_rounded=is_rounded), task=task)

    assert (found.kind, found.first.record) == ("another call", "Tensor.sub.0.forward")
    assert set(found.first.values) == {"Functional.layer_norm.1.forward", "Torch.tanh.1.forward"}


@TASKS
@BASELINES
def test_another_parameter_is_no_other_checkpoint(both_ways, task, is_rounded):
    there, back = both_ways(program("another weight"), program(is_rounded=is_rounded), task=task)

    for found, parameters in ((there, ("norm.weight", "scale")), (back, ("scale", "norm.weight"))):
        assert (found.kind, found.first.record) == ("argument", "Functional.layer_norm.1.forward")
        assert found.first.values == tuple(f"parameter {name}" for name in parameters)


@TASKS
def test_the_result_of_the_same_calls_is_no_news(verdict, task):
    assert verdict(program(), program(is_rounded=True), steps=2, task=task).kind == "agree"


class Attention(nn.Module):
    def __init__(self, *, takes_keys_for_values=False):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.takes_keys_for_values = takes_keys_for_values

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        return functional.scaled_dot_product_attention(query, key, key if self.takes_keys_for_values else value)


def attending(**changes):
    def start():
        x, model = torch.randn(2, 6, 16), Attention(**changes)
        return model, squared_step(model, x, torch.optim.SGD(model.parameters(), lr=0.1))

    return start


@TASKS
def test_a_parameter_that_gets_no_gradient_follows_from_what_a_call_is_given(verdict, task):
    found = verdict(attending(takes_keys_for_values=True), attending(), task=task)

    assert found.first.record == "Functional.scaled_dot_product_attention.0.forward"
    assert found.first.values == ("Functional.linear.1.forward", "Functional.linear.2.forward")


def decaying(weight_decay):
    def start():
        x, model = torch.randn(8, 16), nn.Linear(16, 4)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=weight_decay, foreach=False)

        def step():
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        return model, step

    return start


@TASKS
def test_weights_that_the_baseline_alone_writes_do_not_differ_already(verdict, task):
    found = verdict(decaying(0.0), decaying(0.1), task=task)

    assert (found.kind, found.first.record) == ("another call", "Tensor.addcdiv_.0.forward")
    assert "its input differs after Tensor.mul_.0.forward, which only the baseline has" in found.sentence
    assert "weight_decay" in found.advice


@TASKS
def test_data_that_the_baseline_alone_computes_do_not_differ_already(verdict, task):
    def flipping(is_flipped):
        def start():
            x, model = torch.randn(8, 16), nn.Linear(16, 4)
            return model, lambda: model(x.flip(0) if is_flipped else x).square().mean().backward()

        return start

    found = verdict(flipping(False), flipping(True), task=task)

    assert (found.kind, found.first.partner) == ("another call", "Tensor.flip.0.forward")
    assert "its input differs after Tensor.flip.0.forward, which only the baseline has" in found.sentence


@TASKS
def test_a_call_of_the_baseline_is_not_taken_for_the_candidates_of_the_same_name(tmp_path, task):
    def recorded(name, factor, dtype):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        cast = torch.autocast("cpu", dtype) if dtype else contextlib.nullcontext()
        with torchparity.capture(tmp_path / name, model=model, task=task, level="mix"), cast:
            h = model(torch.randn(16, 32))
            if factor:
                h = h * factor
            (h * model[2].bias).sum().backward()
        return tmp_path / name

    found = torchparity.compare(recorded("plain", 0, None), recorded("other", 1.2, torch.bfloat16)).verdict

    assert (found.kind, found.first.record, found.first.partner) == ("another call", *["Tensor.mul.0.forward"] * 2)
    assert "only the candidate" not in found.sentence
    assert (
        "its input differs after the baseline's Tensor.mul.0.forward, which the candidate does not make"
        in found.sentence
    )


class Pair(nn.Module):
    """Two branches that are put together by `join`."""

    def __init__(self, join):
        super().__init__()
        self.left, self.right, self.last, self.join = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 4), join

    def forward(self, x):
        return self.last(self.join(torch.sigmoid(self.left(x)), functional.layer_norm(self.right(x), (32,))))


def joining(join, is_rounded=False):
    def start():
        x, model = torch.randn(8, 16), Pair(join)
        model = rounded(model) if is_rounded else model
        return model, squared_step(model, x, torch.optim.SGD(model.parameters(), lr=0.1))

    return start


@TASKS
@BASELINES
@pytest.mark.parametrize("operator", [torch.add, torch.mul, torch.Tensor.__add__, torch.Tensor.__mul__])
def test_the_order_of_what_is_added_or_multiplied_is_no_news(verdict, task, is_rounded, operator):
    found = verdict(
        joining(lambda left, right: operator(right, left)), joining(operator, is_rounded), steps=2, task=task
    )

    assert found.kind == "agree"
    assert found.agreement.largest < 1e-5


@TASKS
@BASELINES
def test_what_is_wrong_with_a_product_of_swapped_factors_is_named(verdict, task, is_rounded):
    def wrong(left, right):
        return torch.mul(right, left * 1.001)

    found = verdict(joining(wrong), joining(torch.mul, is_rounded), task=task)

    assert (found.kind, found.first.record) == ("another call", "Tensor.mul.0.forward")


@TASKS
def test_a_difference_has_no_swapped_operands(verdict, task):
    found = verdict(joining(lambda left, right: torch.sub(right, left)), joining(torch.sub), task=task)

    assert (found.kind, found.first.record) == ("another call", "Torch.sub.0.forward")


@TASKS
def test_a_sum_with_a_factor_has_no_swapped_operands(verdict, task):
    found = verdict(
        joining(lambda left, right: torch.add(right, left, alpha=2)),
        joining(lambda *both: torch.add(*both, alpha=2)),
        task=task,
    )

    assert (found.kind, found.first.record) == ("another call", "Torch.add.0.forward")


def slicing(is_interleaved, is_rounded=False):
    def start():
        x, model = torch.randn(8, 16), nn.Linear(16, 16)
        model = rounded(model) if is_rounded else model

        def step():
            h = model(x)
            half = h[:, :8]
            if is_interleaved:
                half = h[:, ::2]
            torch.tanh(half).square().mean().backward()

        return model, step

    return start


@TASKS
@BASELINES
def test_a_slice_that_one_run_alone_takes_is_named(both_ways, task, is_rounded):
    there, back = both_ways(slicing(True), slicing(False, is_rounded), task=task)

    for found in (there, back):
        assert (found.kind, found.first.partner) == ("another call", "Tensor.__getitem__.1.forward")
    assert (
        "only the candidate makes this call; Torch.tanh.0.forward.input.0, which receives its result" in there.sentence
    )
    assert "its input differs after Tensor.__getitem__.1.forward, which only the baseline has" in back.sentence


@TASKS
@BASELINES
def test_another_slice_is_told(verdict, task, is_rounded):
    def halving(takes_last, is_rounded=False):
        def start():
            x, model = torch.randn(8, 16), nn.Linear(16, 16)
            model = rounded(model) if is_rounded else model

            def step():
                h = model(x)
                halves = h[:, :8], h[:, 8:]
                torch.tanh(halves[takes_last]).square().mean().backward()

            return model, step

        return start

    found = verdict(halving(True), halving(False, is_rounded), task=task)

    assert (found.kind, found.first.record) == ("another call", "Torch.tanh.0.forward")
    assert found.first.values == tuple(f"Tensor.__getitem__.{number}.forward.output.0" for number in (1, 0))


@TASKS
def test_a_slice_that_one_run_alone_takes_at_the_end_of_a_step_is_named(both_ways, task):
    def caching(is_cut):
        def start():
            x, model, cache = torch.randn(4, 16), nn.Linear(16, 16), []

            def step():
                with torch.no_grad():
                    cache.append(torch.cat([*cache[-1:], model(x)]))
                    if is_cut:
                        cache[-1] = cache[-1][1:]

            return model, step

        return start

    there, back = both_ways(caching(True), caching(False), steps=2, task=task)

    assert (there.first.step, there.first.record) == (0, "Tensor.__getitem__.0.forward")
    assert "which receives its result, has another shape ([3, 16] against [4, 16])" in there.sentence
    assert "its input differs after step 0, Tensor.__getitem__.0.forward, which only the baseline has" in back.sentence


@TASKS
def test_tensors_of_other_dimensions_are_told_with_both_shapes(verdict, task):
    found = verdict(
        joining(lambda left, right: (left.view(-1, 4, 8) * right.view(-1, 4, 8)).flatten(1)),
        joining(torch.Tensor.__mul__),
        task=task,
    )

    assert found.first.values == ("a tensor of shape [8, 4, 8]", "a tensor of shape [8, 32]")
    assert "does not pass" not in found.sentence


@TASKS
def test_the_result_with_nan_is_told_where_the_baseline_takes_one_without(verdict, task):
    def masking(forgets_mask):
        def start():
            x, model = torch.randn(6, 8), nn.Linear(8, 8)
            x[2, 3] = torch.nan

            def step():
                logs = torch.log(model(x).clamp(min=0))
                kept = torch.where(torch.isfinite(logs), logs, torch.zeros_like(logs))
                (logs if forgets_mask else kept).sum().backward()

            return model, step

        return start

    found = verdict(masking(True), masking(False), task=task)

    assert (found.kind, found.first.record) == ("another call", "Tensor.sum.0.forward")
    assert found.first.values == ("Torch.log.0.forward", "Torch.where.0.forward")
    assert "it has nan and -inf in the candidate alone" in found.sentence
