"""A model on a CUDA device beside one on the host."""

from __future__ import annotations

import pytest
import torch

import torchparity
from tests.support.twins import twins

# torch warns of itself where a process first multiplies matrices in a thread of autograd's.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")]


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_model_on_cuda_agrees_with_one_on_the_host(cuda, task):
    candidate, baseline, tokens = twins()

    result = torchparity.lockstep(candidate.eval().to(cuda), baseline.eval(), tokens, backward=True, task=task)

    assert result.agrees, result.headline
    assert result.candidate_output.device.type == "cuda" and result.baseline_output.device.type == "cpu"


def test_a_fault_on_cuda_is_named_and_the_generator_is_as_it_was(cuda):
    candidate, baseline, tokens = twins()
    candidate.blocks[1].gelu = "tanh"
    state = torch.cuda.get_rng_state(cuda)

    result = torchparity.lockstep(candidate.to(cuda), baseline.to(cuda), tokens)

    assert result.verdict.first.record == "Functional.gelu.1.forward"
    assert torch.equal(torch.cuda.get_rng_state(cuda), state)
