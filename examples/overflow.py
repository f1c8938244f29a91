"""Find the call that overflows, and tell whether the mathematics or a kernel is to blame.

Attention in float16 meets scores that float16 cannot hold: that overflow is normal. Then softmax gets a kernel that
does not subtract the largest score first: that overflow is abnormal. In both trainings a GradScaler begins with
a scale that is far too large, and skips steps; those overflows are its own and are not reported.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

import torchparity
from torchparity import cli

FOLDER, WIDTH, STEPS = Path("example_runs/overflow"), 32, 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = torch.matmul(q, k.transpose(-1, -2))
        return self.out(torch.matmul(torch.softmax(scores, -1), v))


def train(run: str, *, growth: float) -> None:
    torchparity.seed_all(1234)
    model = Attention()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1e-4), torch.amp.GradScaler("cpu", init_scale=2.0**20)
    skipped = 0
    with torchparity.capture(run, task="overflow_check", overflow_nums=1, overwrite=True) as recording:
        for step in range(STEPS):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(torch.randn(2, 8, WIDTH) * growth**step).float().square().mean()
            before = scaler.get_scale()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            skipped += scaler.get_scale() < before
            recording.step()
    print(f"GradScaler skipped {skipped} of {STEPS} steps.")


def naive_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    exponentials = torch.exp(x)
    return exponentials / exponentials.sum(dim, keepdim=True)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.chdir(FOLDER)  # forward_info and its kin go to the folder that the training runs in
    train("large_scores", growth=4.0)
    planted = torch.library.Library("aten", "IMPL")
    planted.impl("_softmax", naive_softmax, "CPU")
    train("wrong_kernel", growth=2.0)
    planted._destroy()
    for run in ("large_scores", "wrong_kernel"):
        cli.main(["overflow", run])


if __name__ == "__main__":
    main()
