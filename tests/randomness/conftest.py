"""Random states and modes are put back after every test of randomness."""

from __future__ import annotations

import pytest
import torch

from torchparity import seed_all


@pytest.fixture(autouse=True)
def as_before():
    state, enabled = torch.get_rng_state(), torch.backends.cudnn.enabled
    yield
    seed_all()  # takes off what is_enhanced put on
    torch.set_rng_state(state)
    torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic = enabled, False
    assert torch._C._len_torch_function_stack() == 0
