"""Four ranks of gloo that reduce a gradient by hand in pairs; recorded twice, the second time scaled on rank 2.

`python -m tests.merging.reducing_ranks FOLDER RANK` records FOLDER/right and FOLDER/scaled.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import torchparity
from tests.support.rank_processes import end_rank, run_ranks

RANKS, FAULTY = 4, 2


def record_ranks(folder: Path) -> None:
    """Record both runs in four processes."""
    run_ranks("tests.merging.reducing_ranks", folder, RANKS)


def main(folder: Path, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=RANKS)
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    for name in ("right", "scaled"):
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
        data = torch.randn(RANKS, 3, 8)[rank]
        with torchparity.capture(folder / name, model=model, task="tensor") as recording:
            model(data).square().mean().backward()
            gradient = model.module.weight.grad
            if name == "scaled" and rank == FAULTY:
                with torch._C.DisableTorchFunction(), torch.no_grad():  # as a kernel that nobody recorded
                    gradient.mul_(2.0)
            dist.all_reduce(gradient, group=pairs[rank // 2])
            recording.step()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    end_rank()
