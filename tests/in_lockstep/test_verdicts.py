"""Verdicts on two models in lockstep: planted faults are named, equal models are called so."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import torchparity
from tests.support.twins import HalvesGradient, twins
from torchparity.comparing import Kind

TASKS = ["statistics", "tensor"]


@pytest.mark.parametrize("level", ["mix", "L1", "L0"])
@pytest.mark.parametrize("backward", [False, True])
def test_equal_models_are_identical(level, backward):
    candidate, baseline, tokens = twins()

    result = torchparity.lockstep(candidate, baseline, tokens, task="tensor", level=level, backward=backward)

    assert result.verdict.kind is Kind.AGREE
    assert result.verdict.agreement.is_identical and result.verdict.agreement.compares_every_bit
    assert result.agrees
    assert result.headline == result.verdict.sentence == result.comparison.headline()


def test_equal_models_agree_by_their_statistics():
    candidate, baseline, tokens = twins()

    result = torchparity.lockstep(candidate, baseline, tokens, backward=True)

    assert result.verdict.agreement.is_identical and not result.verdict.agreement.compares_every_bit
    assert result.comparison.rows_compared()["statistics"] > 100


def test_both_models_draw_the_same_random_numbers():
    candidate, baseline, tokens = twins()

    result = torchparity.lockstep(candidate.train(), baseline.train(), tokens, task="tensor")

    assert "Functional.dropout.2.forward" in result.comparison.parts[0].candidate.records
    assert torch.equal(result.candidate_output, result.baseline_output)


@pytest.mark.parametrize("task", TASKS)
def test_a_wrong_epsilon_is_named(task):
    candidate, baseline, tokens = twins()
    candidate.blocks[1].norm.eps = 1e-2

    result = torchparity.lockstep(candidate, baseline, tokens, task=task)

    assert result.verdict.kind is Kind.ARGUMENT
    assert result.verdict.first.record == "Functional.layer_norm.1.forward"
    assert "input.eps=0.01, the baseline with 1e-05" in result.headline
    assert not result.agrees


@pytest.mark.parametrize("task", TASKS)
def test_the_wrong_form_of_gelu_is_named(task):
    candidate, baseline, tokens = twins()
    candidate.blocks[2].gelu = "tanh"

    result = torchparity.lockstep(candidate, baseline, tokens, task=task)

    assert result.verdict.first.record == "Functional.gelu.2.forward"
    assert "approximate='tanh'" in result.headline


@pytest.mark.parametrize("task", TASKS)
def test_a_dropped_bias_is_named(task):
    candidate, baseline, tokens = twins()
    candidate.blocks[1].up.bias = None

    result = torchparity.lockstep(candidate, baseline, tokens, task=task)

    assert "Module.blocks.1.up.Linear.forward.0: called without" in result.headline


@pytest.mark.parametrize("task", TASKS)
def test_a_wrong_gradient_is_found_by_backward_alone(task):
    candidate, baseline, tokens = twins()
    candidate.blocks[1].identity = HalvesGradient

    forward = torchparity.lockstep(candidate, baseline, tokens, task=task)
    backward = torchparity.lockstep(candidate, baseline, tokens, task=task, backward=True)

    assert forward.agrees
    assert not backward.agrees
    assert backward.verdict.first.record == "Functional.gelu.1.backward"  # the first to receive what is wrong


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_another_dtype_is_called_by_its_name(task, backward):
    candidate, baseline, tokens = twins()

    result = torchparity.lockstep(candidate.bfloat16(), baseline, tokens, task=task, backward=backward)

    assert result.verdict.kind is Kind.DTYPE
    assert "bfloat16 against float32" in result.headline
    assert result.agrees


def test_another_weight_is_named():
    candidate, baseline, tokens = twins()
    with torch.no_grad():
        candidate.blocks[0].down.weight[3, 5] += 1

    result = torchparity.lockstep(candidate, baseline, tokens)

    assert result.verdict.kind is Kind.WEIGHTS
    assert "blocks.0.down.weight" in result.headline


def test_another_implementation_agrees_within_rounding():
    candidate, baseline, tokens = twins()
    for block in candidate.blocks:
        block.attention.fused = True

    result = torchparity.lockstep(candidate, baseline, tokens, backward=True)

    assert result.verdict.kind is Kind.AGREE
    assert "of one run alone" in result.verdict.not_compared


def test_a_fault_of_another_implementation_is_named():
    candidate, baseline, tokens = twins()
    for block in candidate.blocks:
        block.attention.fused = True
    candidate.blocks[1].attention.scale = 0.3

    result = torchparity.lockstep(candidate, baseline, tokens)

    assert result.verdict.first.record == "Functional.scaled_dot_product_attention.1.forward"
    assert not result.agrees


def test_a_difference_within_the_tolerance_is_no_difference():
    torch.manual_seed(0)
    baseline = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    candidate = copy.deepcopy(baseline)
    candidate[1].eps = 2e-5
    inputs = torch.randn(16, 8)

    strict = torchparity.lockstep(candidate, baseline, inputs, level="L0")
    lenient = torchparity.lockstep(candidate, baseline, inputs, level="L0", tolerance=0.01)

    assert strict.verdict.first.record == "Module.1.LayerNorm.forward.0"
    assert lenient.agrees


def test_what_is_ignored_is_gone_past():
    candidate, baseline, tokens = twins()
    candidate.blocks[0].gelu = "tanh"

    assert not torchparity.lockstep(candidate, baseline, tokens).agrees
    assert torchparity.lockstep(candidate, baseline, tokens, ignore="Functional.gelu.*").agrees


def test_the_outputs_are_those_of_the_models():
    candidate, baseline, tokens = twins()
    candidate.eval(), baseline.eval()
    candidate.head.bias.data += 1

    result = torchparity.lockstep(candidate, baseline, tokens)

    assert torch.equal(result.candidate_output, candidate(tokens))
    assert torch.equal(result.baseline_output, baseline(tokens))
    assert not result.candidate_output.requires_grad


def test_the_loss_is_the_caller_s():
    candidate, baseline, tokens = twins()
    candidate.blocks[1].identity = HalvesGradient
    seen = []

    def no_loss_of_the_head(logits):
        seen.append(logits)
        return logits[..., 0].sum() * 0

    silent = torchparity.lockstep(candidate, baseline, tokens, backward=True, loss=no_loss_of_the_head)
    loud = torchparity.lockstep(candidate, baseline, tokens, backward=True, loss=lambda logits: logits.square().mean())

    assert len(seen) == 2
    assert silent.agrees and not loud.agrees


def test_tables_and_values_can_be_looked_at_afterwards():
    candidate, baseline, tokens = twins()
    candidate.blocks[1].gelu = "tanh"

    result = torchparity.lockstep(candidate, baseline, tokens, task="tensor")

    assert result.comparison.parts[0].mode == "values"
    assert result.comparison.frame.height == len(result.comparison.parts[0].comparisons)
    assert repr(result) == f"<LockstepResult: {result.headline}>"
