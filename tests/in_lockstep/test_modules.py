"""Modules of other classes: which stand in each other's place, and that their calls are compared."""

from __future__ import annotations

import copy

import torch
from torch import nn

import torchparity
from tests.support.twins import Attention, Block, Net, twins
from torchparity.in_lockstep.modules import module_partners


class FusedAttention(Attention):
    def __init__(self):
        super().__init__()
        self.fused = True


class FusedBlock(Block):
    def __init__(self):
        super().__init__()
        self.attention = FusedAttention()


class Rewritten(Net):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(FusedBlock() for _ in range(3))
        self.factor = 1.0

    def forward(self, tokens):
        return super().forward(tokens) * self.factor


def rewritten():
    _, baseline, tokens = twins()
    candidate = Rewritten()
    candidate.load_state_dict(baseline.state_dict())
    return candidate, baseline, tokens


def test_modules_at_one_path_are_partners_whatever_their_class():
    candidate, baseline, _ = rewritten()

    partners = module_partners(candidate, baseline)

    assert partners["Module.Rewritten"] == "Module.Net"
    assert partners["Module.blocks.1.attention.FusedAttention"] == "Module.blocks.1.attention.Attention"
    assert len(partners) == 7
    assert module_partners(baseline, copy.deepcopy(baseline)) == {}


def test_another_kind_of_layer_at_the_same_place_is_no_partner():
    candidate = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    baseline = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))

    assert module_partners(candidate, baseline) == {}


def test_every_module_of_a_rewritten_model_is_compared():
    candidate, baseline, tokens = rewritten()

    result = torchparity.lockstep(candidate, baseline, tokens, level="L0", backward=True)

    assert result.agrees
    assert result.verdict.not_compared == ""
    assert set(result.comparison.counts()) == {"renamed", "name"} or set(result.comparison.counts()) == {"name"}


def test_a_fault_in_what_a_rewritten_model_does_last_is_found():
    candidate, baseline, tokens = rewritten()
    candidate.factor = 1.1

    result = torchparity.lockstep(candidate, baseline, tokens, level="L0")

    assert result.verdict.first.record == "Module.Rewritten.forward.0"
    assert result.verdict.first.baseline_record == "Module.Net.forward.0"


def test_a_fault_inside_a_rewritten_module_is_found_there():
    candidate, baseline, tokens = rewritten()
    candidate.blocks[1].attention.scale = 0.3

    result = torchparity.lockstep(candidate, baseline, tokens)

    assert result.verdict.first.record == "Functional.scaled_dot_product_attention.1.forward"
    assert result.verdict.first.module == "Module.blocks.1.attention.FusedAttention.forward.0"


def test_another_activation_is_blamed_by_its_module():
    torch.manual_seed(0)
    baseline = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    candidate = nn.Sequential(baseline[0], nn.SiLU(), baseline[2])

    result = torchparity.lockstep(candidate, baseline, torch.randn(6, 4), level="L0")

    assert result.verdict.first.record == "Module.1.SiLU.forward.0"
