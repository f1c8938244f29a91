"""Trainings on four ranks of gloo with DDP, and with tensor parallelism beside it, recorded by the same processes.

`python -m tests.support.four_ranks FOLDER RANK` records every job into FOLDER/JOB.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import torchparity
from tests.support.rank_processes import end_rank, run_ranks

RANKS = 4
FAULTY = 2  # the rank on which a gradient is scaled
STAGE = 1  # of the pipeline, at which a tensor is scaled
BROKEN = 1  # the rank on which an all_reduce gives something else
JOBS = (
    "ddp-none",
    "ddp-scaled",
    "ddp-broken",
    "tp-none",
    "tp-scaled",
    "pipe-none",
    "pipe-scaled",
    "all-none",
    "all-values",
)


def record_four_ranks(folder: Path) -> None:
    """Record all jobs in four processes."""
    run_ranks("tests.support.four_ranks", folder, RANKS)


def main(folder: Path, rank: int) -> None:
    warnings.simplefilter("ignore", FutureWarning)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=RANKS)
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    for job in JOBS:
        strategy, _, fault = job.partition("-")
        if strategy == "ddp":
            data_parallel(folder / job, rank, fault)
        elif strategy == "tp":
            tensor_parallel(folder / job, rank, mesh, fault)
        elif strategy == "pipe":
            pipeline(folder / job, rank, fault)
        else:
            all_collectives(folder / job, rank, pairs[rank // 2], "tensor" if fault == "values" else "statistics")
        dist.barrier()
    dist.destroy_process_group()


def data_parallel(path: Path, rank: int, fault: str) -> None:
    """Two steps of DDP; the head's gradient is reduced once more by hand."""
    torch.manual_seed(0)
    head = nn.Linear(12, 6)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 12), nn.GELU(), head))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.randn(RANKS, 4, 8)[rank]
    with (
        wrong_all_reduce(fault == "broken" and rank == BROKEN),
        torchparity.capture(path, model=model, level="mix") as recording,
    ):
        for _ in range(2):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            if fault == "scaled" and rank == FAULTY:
                scale_unseen(head.weight.grad)
            dist.all_reduce(head.weight.grad, op=dist.ReduceOp.AVG)
            optimizer.step()
            recording.step()


def tensor_parallel(path: Path, rank: int, mesh: Any, fault: str) -> None:
    """One step of a model that two ranks share, in two replicas; their gradients are reduced by hand."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model: Any = parallelize_module(nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 6)), mesh["tensor"], plan)
    data = torch.randn(2, 4, 8)[rank // 2]
    with torchparity.capture(path, model=model, task="tensor", level="mix") as recording:
        model(data).square().mean().backward()
        gradient = model[0].weight.grad.to_local()
        if fault == "scaled" and rank == FAULTY:
            scale_unseen(gradient)
        dist.all_reduce(gradient, group=mesh["data"].get_group())
        recording.step()


def pipeline(path: Path, rank: int, fault: str) -> None:
    """Two micro-batches through four stages, one sent by isend, the other in a batch."""
    torch.manual_seed(rank)
    weight = torch.randn(8, 8)
    with torchparity.capture(path) as recording:
        for kind in ("single", "batch"):
            x = torch.ones(4, 8)
            if rank:
                x = torch.empty(4, 8)
                transfer(kind, dist.irecv, x, rank - 1)
            x = torch.tanh(x @ weight)
            if fault == "scaled" and rank == STAGE:
                scale_unseen(x)
            x = x.sin()
            if rank < RANKS - 1:
                transfer(kind, dist.isend, x, rank + 1)
        recording.step()


def transfer(kind: str, function: Callable[..., Any], tensor: torch.Tensor, other: int) -> None:
    works = (
        [function(tensor, other)] if kind == "single" else dist.batch_isend_irecv([dist.P2POp(function, tensor, other)])
    )
    for work in works:
        work.wait()


def scale_unseen(tensor: Any) -> None:
    """Scale a tensor as a kernel of somebody's own would, which no recording sees."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        tensor.mul_(1.01)


@contextmanager
def wrong_all_reduce(is_wrong: bool) -> Iterator[None]:
    """Let `dist.all_reduce` give a little more than the sum, below what a recording wraps."""
    original: Callable[..., Any] = dist.all_reduce

    def all_reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        work = original(tensor, *args, **kwargs)
        tensor.view(-1)[3] += 0.01 * float(tensor.norm())
        return work

    if is_wrong:
        dist.all_reduce = all_reduce
    try:
        yield
    finally:
        dist.all_reduce = original


def all_collectives(path: Path, rank: int, pair: Any, task: Any) -> None:
    """Call every collective once, in groups and with reductions of all kinds."""
    torch.manual_seed(rank)
    x = torch.randn(RANKS, 300)
    with torchparity.capture(path, task=task) as recording:
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            dist.all_reduce(x.clone(), op=op)
        dist.all_reduce(tensor=x.to(torch.bfloat16), group=pair)
        dist.all_reduce(torch.full((3,), 2**30, dtype=torch.int32) * rank)
        dist.all_reduce(x[0].clone(), async_op=True).wait()
        dist.all_gather([torch.empty(300) for _ in range(RANKS)], x[1])
        dist.all_gather_into_tensor(torch.empty(600), x[1], group=pair)
        dist.reduce_scatter(torch.empty(300), list(x.unbind()))
        dist.reduce_scatter_tensor(torch.empty(300), x.flatten())
        dist.broadcast(x[2].clone(), src=1)
        dist.reduce(x[3].clone(), dst=2, op=dist.ReduceOp.MAX)
        dist.scatter(torch.empty(300), list(x.unbind()) if rank == 1 else None, src=1)
        dist.gather(x[0], [torch.empty(300) for _ in range(RANKS)] if rank == 3 else None, dst=3)
        dist.all_to_all_single(torch.empty(RANKS, 300), x)
        lengths = [1 + (rank + other) % 2 for other in range(RANKS)]
        dist.all_to_all_single(torch.empty(sum(lengths), 5), torch.randn(sum(lengths), 5), lengths, lengths)
        dist.all_gather_object([None] * RANKS, {"rank": rank})
        sends_and_receives(rank, x)
        recording.step()


def sends_and_receives(rank: int, x: torch.Tensor) -> None:
    """Send around the ring in a batch and one by one, and from odd ranks to the even ones before them."""
    following, before = (rank + 1) % RANKS, (rank - 1) % RANKS
    received = torch.empty(300)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x[0], following), dist.P2POp(dist.irecv, received, before)]
    ):
        work.wait()
    works = [dist.irecv(torch.empty(300), before), dist.isend(x[1] * 2, following)]
    for work in works:
        work.wait()
    if rank % 2:
        dist.send(x[2] + received, rank - 1)
    else:
        dist.recv(torch.empty(300))  # from anybody: only one rank sends


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    end_rank()
