"""Small trainings on two ranks of gloo, recorded one after the other by the same two processes.

`python -m tests.support.ranks FOLDER RANK` records every strategy with every fault into FOLDER/STRATEGY-FAULT.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import torchparity
from tests.faultbed.plant import Change, wrong_output
from tests.support.planting import planted
from tests.support.rank_processes import end_rank, run_ranks

RANKS = 2
STRATEGIES = {"ddp": "statistics", "fsdp2": "tensor"}  # and the task in which each is recorded
FAULTS = ("none", "again", "data", "kernel", "weights")  # data and kernel are wrong on rank 1, weights on both
KERNEL = "Functional.gelu.1.forward"


def record_ranks(folder: Path) -> None:
    """Record all trainings in two processes."""
    run_ranks("tests.support.ranks", folder, RANKS)


def main(folder: Path, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=RANKS)
    for strategy, task in STRATEGIES.items():
        for fault in FAULTS:
            train(folder / f"{strategy}-{fault}", rank, strategy, task, fault)
            dist.barrier()
    dist.destroy_process_group()


def train(path: Path, rank: int, strategy: str, task: Any, fault: str) -> None:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(2)]
    model = nn.Sequential(*blocks, nn.Linear(16, 8))
    data = torch.randn(RANKS, 4, 16)[rank]
    if fault == "data" and rank == 1:
        data = data * 1.01
    if fault == "weights":
        model[1][0].weight.data.mul_(1.01)
    change = wrong_output(lambda y: y * 1.01) if fault == "kernel" and rank == 1 else None
    record(distributed(model, blocks, strategy), data, path, task, change)


def distributed(model: nn.Module, blocks: list[nn.Sequential], strategy: str) -> Any:
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for block in blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def record(model: Any, data: torch.Tensor, path: Path, task: Any, change: Change | None) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with torchparity.capture(path, model=model, task=task, level="mix") as recording:
        for _ in range(2):
            optimizer.zero_grad()
            with planted(KERNEL, change):
                model(data).square().mean().backward()
            optimizer.step()
            recording.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    end_rank()
