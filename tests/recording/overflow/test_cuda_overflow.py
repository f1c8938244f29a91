"""Overflows on a CUDA device: found, kept with their values, and the training is the same to the bit."""

from __future__ import annotations

import pytest
import torch

from tests.support.bits import same
from torchparity import open_run
from torchparity.overflow.entry import Verdict, overflows_of

pytestmark = pytest.mark.gpu


def training(device, size):
    torch.manual_seed(0)
    model = torch.nn.Linear(32, 96).to(device).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step():
        q, k, v = model((torch.randn(4, 16, 32, device=device) * size).half()).chunk(3, -1)
        scores = torch.matmul(q, k.transpose(-1, -2))
        torch.matmul(torch.softmax(scores.float(), -1).half(), v).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


@pytest.mark.parametrize("size", [1.0, 300.0])
def test_watching_changes_no_bit_and_finds_what_overflows(cuda, overflowing, tmp_path, size):
    alone, step = training(cuda, size)
    for _ in range(3):
        step()
    watched, step = training(cuda, size)

    found = overflowing(step, steps=3, overflow_nums=1)

    assert same(
        {name: each.cpu() for name, each in watched.state_dict().items()},
        {name: each.cpu() for name, each in alone.state_dict().items()},
    )
    if size == 1.0:
        assert found == {}
        return
    assert found == {0: ["Torch.matmul.0.forward"]}
    (overflow,) = overflows_of(open_run(tmp_path / "run").parts, cuda)
    assert overflow.verdict is Verdict.NORMAL


def test_steps_that_a_scaler_skips_are_not_reported(cuda, overflowing):
    model = torch.nn.Linear(32, 32).to(cuda)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1e-3), torch.amp.GradScaler("cuda", init_scale=2.0**40)
    scales = []

    def step():
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(8, 32, device=cuda)).square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())

    assert overflowing(step, steps=4) == {}
    assert scales[-1] < 2.0**40
