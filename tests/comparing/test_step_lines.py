"""Each step's loss and norm of the gradients in both runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchparity
from torchparity.comparing.step_lines import step_lines


def train(path, factor, steps=2):
    """Record a training; return its losses and norms."""
    torch.manual_seed(0)
    model, data = nn.Linear(4, 3), torch.randn(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numbers = []
    with torchparity.capture(path, model=model) as recording:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (model(data) * factor).square().mean()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            recording.step()
            numbers.append((loss.item(), norm.item()))
    return numbers


def test_losses_and_norms_of_both_runs_are_told(tmp_path):
    mine, other = train(tmp_path / "candidate", 1.1), train(tmp_path / "baseline", 1.0)

    lines = step_lines(torchparity.compare(tmp_path / "candidate", tmp_path / "baseline").parts)

    assert lines == [
        f"step {step}: loss {left[0]:.6g} against {right[0]:.6g}; "
        f"norm of the gradients {left[1]:.6g} against {right[1]:.6g}"
        for step, (left, right) in enumerate(zip(mine, other, strict=True))
    ]


def test_equal_losses_are_said_once_and_long_runs_end(tmp_path):
    numbers = train(tmp_path / "run", 1.0, steps=12)

    lines = step_lines(torchparity.compare(tmp_path / "run", tmp_path / "run").parts)

    assert lines[0].startswith(f"step 0: loss {numbers[0][0]:.6g} in both runs; ")
    assert len(lines) == 11 and lines[-1] == "and 2 more"


@pytest.mark.parametrize("bits", [1, 100])
def test_losses_that_look_alike_are_told_apart(tmp_path, bits):
    from tests.support.dumps import call, constant, write_dump

    name = "Functional.mse_loss.0"
    runs = []
    for side, loss in (("candidate", 0.5), ("baseline", 0.5 + bits * 2.0**-24)):
        one = {"shape": []}
        records = {
            f"{name}.forward": call([constant(1.0)], [constant(loss, requires_grad=True, **one)]),
            f"{name}.backward": {"input": [constant(1.0, **one)], "output": [constant(1.0)]},
        }
        runs.append(write_dump(tmp_path / side, records))

    (line,) = step_lines(torchparity.compare(*runs).parts)

    left, right = line.removeprefix("step 0: loss ").split(" against ")
    assert left != right
