"""A small training on two ranks of gloo, recorded; run as a program, once for each rank.

`python -m tests.support.ranks RUN RANK STORE STRATEGY TASK FAULT`: the strategy is ddp or fsdp2; the fault is none,
data (rank 1 gets its data scaled), kernel (rank 1's gelu is wrong) or weights (every rank starts from other ones).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import torchparity
from tests.faultbed.plant import wrong_output
from tests.support.planting import planted
from tests.support.processes import ROOT

RANKS = 2
KERNEL = "Functional.gelu.1.forward"


def record_ranks(path: Path, *, strategy: str, task: str, fault: str = "none") -> Path:
    """Record the training in two processes; return the run."""
    store = path.with_name(f"{path.name}-store")
    settings = [str(store), strategy, task, fault]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.ranks", str(path), str(rank), *settings],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(RANKS)
    ]
    errors = [rank.communicate(timeout=100)[1] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise RuntimeError("\n".join(errors))
    return path


def main(path: str, rank: int, store: str, strategy: str, task: str, fault: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(2)]
    model = nn.Sequential(*blocks, nn.Linear(16, 8))
    data = torch.randn(RANKS, 4, 16)[rank]
    if fault == "data" and rank == 1:
        data = data * 1.01
    if fault == "weights":
        blocks[1][0].weight.data.mul_(1.01)
    change = wrong_output(lambda y: y * 1.01) if fault == "kernel" and rank == 1 else None
    train(distributed(model, blocks, strategy), data, Path(path), task, change)
    dist.destroy_process_group()


def distributed(model, blocks, strategy):
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for block in blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model, data, path, task, change):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with torchparity.capture(path, model=model, task=task, level="mix") as recording:
        for _ in range(2):
            optimizer.zero_grad()
            with planted(KERNEL, change):
                model(data).square().mean().backward()
            optimizer.step()
            recording.step()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
