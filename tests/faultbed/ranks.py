"""A training on two ranks, with DDP or FSDP2, recorded."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.faultbed.program import Subject, Task, make_program, record

RANKS = 2


def record_on_ranks(subject: Subject, path: Path, task: Task, strategy: str) -> None:
    """Train the subject on two processes with gloo, each with its half of the data."""
    with tempfile.NamedTemporaryFile() as meeting:
        mp.start_processes(  # type: ignore[no-untyped-call]
            _on_rank,
            args=(subject.name, path, task, strategy, f"{meeting.name}-store"),
            nprocs=RANKS,
            start_method="spawn",
        )


def _on_rank(rank: int, name: str, path: Path, task: Task, strategy: str, store: str) -> None:
    from tests.faultbed.models import SUBJECTS

    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    program = make_program(SUBJECTS[name])
    program.batches = [{key: value.chunk(RANKS)[rank] for key, value in batch.items()} for batch in program.batches]
    program.model = _distributed(program.model, strategy)
    record(program, path, task)
    dist.destroy_process_group()
    sys.stdout.flush()


def _distributed(model: Any, strategy: str) -> Any:
    if strategy == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)
