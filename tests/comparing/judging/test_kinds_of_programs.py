"""Two programs that differ in one fact: the verdict says which kind of fact, and where."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.faultbed.plant import wrong_gradient, wrong_output
from tests.support.planting import planted
from torchparity.comparing.judging.wording.advice import advice

TASKS = pytest.mark.parametrize("task", ["statistics", "tensor"])


class Block(nn.Module):
    """A layer norm, a linear layer, an activation, dropout and another linear layer, with a branch around."""

    def __init__(self, *, form="none", rate=0.0, cut=False, width=16):
        super().__init__()
        self.form, self.rate, self.cut = form, rate, cut
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, width)

    def forward(self, x):
        h = functional.gelu(self.up(self.norm(x)), approximate=self.form)
        h = functional.dropout(torch.log(h + 1e3), self.rate)
        return self.down(h.detach() if self.cut else h)


def cropped(func, args, kwargs):
    return func(*args, **kwargs)[:, :4]


def training(seed=0, frozen=False, kernel=None, **changes):
    """Return a program that trains the block with Adam; `kernel` changes its logarithm."""

    def program():
        x, model = torch.randn(2, 8, 16), Block(**changes)
        model.up.weight.requires_grad_(not frozen)
        optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad])
        torch.manual_seed(seed)

        def step():
            optimizer.zero_grad()
            with planted("Torch.log.0.forward", kernel):
                model(x).square().mean().backward()
            optimizer.step()

        return model, step

    return program


@TASKS
def test_another_seed_drew_other_random_numbers(verdict, task):
    found = verdict(training(seed=1, rate=0.1), training(rate=0.1), task=task)

    assert (found.kind, found.first.record) == ("random numbers", "Functional.dropout.0.forward")
    assert "it drew other random numbers" in found.sentence
    assert "seed" in advice(found.kind, found.first)


@TASKS
@pytest.mark.parametrize(
    ("changes", "kind", "named"),
    [
        pytest.param({"cut": True}, "missing gradient", "Functional.linear.1.backward", id="detached"),
        pytest.param({"frozen": True}, "missing gradient", "Functional.linear.0.backward", id="frozen"),
        pytest.param({"kernel": cropped}, "shape", "Torch.log.0.forward", id="shape"),
        pytest.param({"kernel": wrong_output(lambda y: y * math.nan)}, "non-finite", "Torch.log.0.forward", id="nan"),
        pytest.param({"width": 24}, "shape", "Functional.linear.1.forward", id="weight"),
    ],
)
def test_four_facts_have_four_names(verdict, task, changes, kind, named):
    found = verdict(training(**changes), training(), task=task)

    assert (found.kind, found.first.record) == (kind, named), found.sentence


class Attention(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale, self.qkv, self.norm = scale, nn.Linear(16, 48), nn.LayerNorm(16)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, -1)
        return self.norm(x + functional.scaled_dot_product_attention(query, key, value, scale=self.scale))


@TASKS
def test_another_scale_of_attention_is_an_argument(verdict, task):
    def program(scale):
        model, x = Attention(scale), torch.randn(2, 8, 16)
        return model, lambda: model(x).square().mean().backward()

    found = verdict(lambda: program(0.2525), lambda: program(0.25), task=task)

    assert found.kind == "argument"
    assert found.first.record == "Functional.scaled_dot_product_attention.0.forward"
    assert found.first.values == ("0.2525", "0.25") and found.first.item == "input.scale"


class Reshaped(nn.Module):
    """An activation that is read through a view of another shape."""

    def __init__(self, form):
        super().__init__()
        self.form, self.up, self.down = form, nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        h = functional.gelu(self.up(x), approximate=self.form)
        return self.down(h.reshape(-1, 32))


def reshaped(form):
    def program():
        model, x = Reshaped(form), torch.randn(2, 8, 16)
        return model, lambda: model(x).square().mean().backward()

    return program


@TASKS
def test_the_form_of_gelu_is_an_argument(verdict, task):
    found = verdict(reshaped("tanh"), reshaped("none"), task=task)

    assert (found.kind, found.first.record) == ("argument", "Functional.gelu.0.forward")
    assert found.first.values == ("'tanh'", "'none'")


@TASKS
def test_an_activation_whose_maker_is_not_recorded_is_no_weight(verdict, task):
    found = verdict(reshaped("tanh"), reshaped("none"), task=task, list=["linear"])

    assert (found.kind, found.first.record) == ("unrecorded step", "Functional.linear.1.forward"), found.sentence
    assert found.first.item == "input.0" and "weights" not in found.sentence
    assert "not recorded" in found.sentence


@TASKS
def test_a_norm_inside_of_a_library_has_two_lines(verdict, task):
    transformers = pytest.importorskip("transformers")

    def program(epsilon):
        config = transformers.LlamaConfig(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
        model, tokens = transformers.LlamaForCausalLM(config), torch.arange(16).view(2, 8)
        model.model.layers[1].post_attention_layernorm.variance_epsilon = epsilon
        return model, lambda: model(input_ids=tokens, labels=tokens).loss.backward()

    found = verdict(lambda: program(1e-2), lambda: program(1e-6), task=task)

    assert found.kind == "argument" and "layers.1.post_attention_layernorm" in found.first.module
    assert found.first.values == ("0.01", "1e-06")
    user, library = found.first.lines
    assert user.startswith("test_kinds_of_programs.py, line ") and library.startswith("modeling_llama.py, line ")
    assert user in found.sentence and library in found.sentence


def test_runs_of_different_models_are_called_so(verdict):
    def convolutions():
        model, x = nn.Sequential(*(nn.Conv1d(4, 4, 3, padding=1) for _ in range(12))), torch.randn(2, 4, 32)
        return model, lambda: model(x).square().mean().backward()

    def linear():
        layers = [layer for _ in range(12) for layer in (nn.LayerNorm(8), nn.Linear(8, 8))]
        model, x = nn.Sequential(nn.Conv1d(4, 8, 8), *layers), torch.randn(2, 4, 15)
        return model, lambda: model(x).square().mean().backward()

    found = verdict(convolutions, linear)

    assert found.kind == "another model", found.sentence
    paired, records = map(
        int, re.match(r"(\d+) of (\d+) records pair: these look like different", found.sentence).groups()
    )
    assert 0 < paired < records / 10


def prefixed(*, autocast=False, first=None, second=None):
    """Return a program whose first calls round and are never cast; `first` and `second` change its linear layers."""

    def program():
        x, model = torch.randn(64, 16), nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def step():
            with (
                torch.autocast("cpu", torch.bfloat16, enabled=autocast),
                planted("Functional.linear.0.forward", first),
                planted("Functional.linear.1.forward", second),
            ):
                model(x.sin().exp().log1p().tanh()).square().mean().backward()

        return model, step

    return program


def rounded_otherwise(func, args, kwargs):
    return func(*(value.double() for value in args), **kwargs).float()


@TASKS
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"autocast": True}, id="autocast"),
        pytest.param({"first": rounded_otherwise}, id="other rounding"),
    ],
)
def test_a_wrong_operator_is_named_although_an_earlier_one_rounds_otherwise_first(verdict, task, changes):
    scaled = wrong_output(lambda y: y * 1.2)

    found = verdict(prefixed(**changes, second=scaled), prefixed(), task=task)

    assert (found.kind, found.first.record) == ("operator", "Functional.linear.1.forward")


@TASKS
def test_a_wrong_gradient_is_named_although_its_call_rounds_otherwise_first(verdict, task):
    def second(func, args, kwargs):
        def rounding(*given, **named):
            return rounded_otherwise(func, given, named)

        return wrong_gradient(lambda gradient: gradient * 1.2)(rounding, args, kwargs)

    found = verdict(prefixed(second=second), prefixed(), task=task)

    assert (found.kind, found.first.record) == ("operator", "Functional.linear.1.backward")


@TASKS
@pytest.mark.parametrize("is_infinite_in_baseline", [False, True])
def test_an_argument_that_is_infinite_in_one_run_is_named(verdict, task, is_infinite_in_baseline):
    def masking(fill):
        def program():
            x, model = torch.randn(4, 6, 6), nn.Linear(6, 6)
            mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
            return model, lambda: model(x).masked_fill(mask, fill).softmax(-1).square().mean().backward()

        return program

    fills = (-1e9, -math.inf) if is_infinite_in_baseline else (-math.inf, -1e9)
    found = verdict(*map(masking, fills), task=task)

    assert (found.kind, found.first.record) == ("argument", "Tensor.masked_fill.0.forward")
    assert found.first.values == tuple(map(str, fills))


@TASKS
def test_a_gradient_that_is_missing_in_every_step_is_told_once(verdict, task):
    found = verdict(training(frozen=True), training(), steps=3, task=task)

    assert (found.kind, found.first.step, len(found.first.repeated_in)) == ("missing gradient", 0, 2)
    assert not [finding for finding in found.also if finding.kind == "missing gradient"]


@TASKS
def test_random_numbers_of_another_stream_are_told_once(verdict, task):
    def noisy(seed):
        def program():
            x, model = torch.randn(4, 16), nn.Linear(16, 16)
            torch.manual_seed(seed)
            return model, lambda: model(x + torch.randn(4, 16)).square().mean().backward()

        return program

    found = verdict(noisy(1), noisy(0), steps=3, task=task)

    assert (found.kind, len(found.first.repeated_in)) == ("random numbers", 2)
    assert not found.also
