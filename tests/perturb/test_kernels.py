"""Kernels of our own on CUDA: halves become the same float32 as torch makes of them."""

from __future__ import annotations

import pytest
import torch

from tests.support.bits import same_bits
from torchparity.perturb.fused_kernels import fused_raise

MANY = 1 << 20


@pytest.mark.gpu
@pytest.mark.parametrize("first", [0, 1], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_raised_to_the_same_bits(dtype, first, cuda):
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16, device=cuda).view(dtype)  # nan, inf and subnormal too
    halves = every.repeat(MANY // every.numel() + 1)[first : MANY + first + 3]

    raised = fused_raise(halves)

    assert same_bits(raised.nan_to_num(7.0), halves.float().nan_to_num(7.0))
    assert torch.equal(raised.isnan(), halves.isnan())


@pytest.mark.gpu
def test_what_torch_raises_as_well_is_left_to_it(cuda):
    halves = torch.ones(2 * MANY, device=cuda).bfloat16()

    assert fused_raise(halves[:100]) is None
    assert fused_raise(halves[::2]) is None
    assert fused_raise(halves.float()) is None
    assert fused_raise(halves.requires_grad_()) is None
    with torch.no_grad():
        assert fused_raise(halves).dtype is torch.float32


def test_the_host_raises_with_torch():
    assert fused_raise(torch.ones(MANY).bfloat16()) is None
