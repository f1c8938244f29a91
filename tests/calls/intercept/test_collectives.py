"""Two processes on gloo: collectives with their groups, DDP, and FSDP2, recorded on both ranks."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tests.support.processes import ROOT
from tests.support.rank_processes import WAIT_FOR_GLOO
from torchparity import open_run
from torchparity.recording import capture
from torchparity.records import GroupLeaf

PREPARE = """
import os, sys, torch, torch.distributed as dist
from torchparity.recording import capture
rank = int(sys.argv[1])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[3])
dist.init_process_group("gloo", rank=rank, world_size=2)
"""
COLLECTIVES = """
pair = dist.new_group([0, 1])
with capture(sys.argv[2], task="tensor"):
    x = torch.full((2,), float(rank + 1))
    dist.all_reduce(x, group=pair)
    dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True).wait()
    parts = [torch.zeros(2), torch.zeros(2)]
    dist.all_gather(parts, torch.full((2,), float(rank)))
    (dist.send if rank == 0 else dist.recv)(parts[0].add_(5), 1 - rank)
    mine, theirs = torch.full((2,), float(rank)), torch.zeros(2)
    # Both send first: whoever waited for the send would wait for ever.
    handles = [dist.isend(mine, 1 - rank), dist.irecv(theirs, 1 - rank)]
    for handle in handles:
        handle.wait()
    dist.broadcast(x, src=0)
dist.destroy_process_group()
"""
POINT_TO_POINT = """
class Pipeline(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Identity(), torch.nn.Identity()

    def forward(self, x):
        x = self.first(x + 1)
        op = dist.P2POp(dist.isend, x, 1) if rank == 0 else dist.P2POp(op=dist.irecv, tensor=x, peer=0)
        for work in dist.batch_isend_irecv([op]):
            work.wait()
        return self.second(x)

model = Pipeline()
with capture(sys.argv[2], model=model, level=sys.argv[4], task="tensor"):
    result = model(torch.full((2,), 10.0 * rank))
assert result.tolist() == [1, 1]
dist.P2POp(dist.isend, torch.ones(2), 1 - rank)
dist.destroy_process_group()
"""
BETWEEN_MODULES = """
class Parallel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Identity(), torch.nn.Identity()

    def forward(self, x):
        x = self.first(x + 1)
        dist.all_reduce(x)
        return self.second(x)

model = Parallel()
with capture(sys.argv[2], model=model, level="L0", task="tensor"):
    model(torch.full((2,), float(rank)))
dist.destroy_process_group()
"""
FUNCTIONAL = """
import time
import torch.distributed._functional_collectives as functional
with capture(sys.argv[2], task="tensor"):
    x = torch.full((2,), float(rank + 1))
    if rank == 1: time.sleep(1)
    functional.all_reduce(x, "sum", dist.group.WORLD) + 0
dist.destroy_process_group()
"""
DDP = """
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)))
with capture(sys.argv[2], model=model, task="tensor"):
    torch.manual_seed(rank)
    model(torch.randn(2, 3)).sum().backward()
torch.save([p.grad for p in model.parameters()], sys.argv[2] + f"/grads{rank}")
dist.destroy_process_group()
"""
FSDP = """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
mesh = init_device_mesh("cpu", (2,))
for layer in model: fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with capture(sys.argv[2], model=model):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def run_two(code, path, port, *more):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PREPARE + code + WAIT_FOR_GLOO, str(rank), str(path), str(port), *more],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors[-3000:]
        assert "could not record" not in errors, errors[-3000:]
    return open_run(path)


@pytest.fixture
def port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_collectives_have_values_before_and_after_and_their_group(tmp_path, port):
    run = run_two(COLLECTIVES, tmp_path, port)

    assert run.ranks == [0, 1]
    for rank in run.ranks:
        part = run.part(rank=rank)
        first, second = (part.records[f"Distributed.all_reduce.{n}.forward"] for n in (0, 1))
        assert part.tensor(first.input_args[0]).array.tolist() == [rank + 1.0] * 2
        assert part.tensor(first.output[0]).array.tolist() == [3.0, 3.0]
        assert isinstance(first.input_kwargs["group"], GroupLeaf)
        assert first.input_kwargs["group"].ranks == (0, 1)
        assert "MAX" in str(second.input_kwargs["op"].value)
        assert not any(name.startswith("Torch.distributed") for name in part.records)
        assert sum("all_reduce" in name for name in part.records) == 2
        assert part.tensor(second.output[0]).array.tolist() == [3.0, 3.0]
        gathered = part.records["Distributed.all_gather.0.forward"].output[0]
        assert [part.tensor(leaf).array.tolist() for leaf in gathered] == [[0, 0], [1, 1]]
        assert "Distributed.broadcast.0.forward" in part.records
        arrived = part.records["Distributed.irecv.0.forward"].output[0]
        assert part.tensor(arrived).array.tolist() == [1.0 - rank] * 2
        assert part.verify() == []
    received = run.part(rank=1).records["Distributed.recv.0.forward"].output[0]
    assert run.part(rank=1).tensor(received).array.tolist() == [5, 5]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_batches_of_sends_and_receives_are_made_and_seen(tmp_path, port, level):
    run = run_two(POINT_TO_POINT, tmp_path, port, level)

    for rank in run.ranks:
        part = run.part(rank=rank)
        received = part.records["Module.second.Identity.forward.0"].input_args[0]
        assert part.tensor(received).array.tolist() == [1, 1]
        assert ("Distributed.batch_isend_irecv.0.forward" in part.records) == (level == "mix")
        if level == "mix":
            record = part.records["Distributed.batch_isend_irecv.0.forward"]
            (before,), (after,) = record.input_args[0], record.output[0]
            assert (before["op"].value, before["peer"].value) == (("isend", 1) if rank == 0 else ("irecv", 0))
            assert part.tensor(before["tensor"]).array.tolist() == [10 * rank + 1] * 2
            assert part.tensor(after["tensor"]).array.tolist() == [1, 1]


def test_what_a_collective_wrote_between_modules_is_seen_at_level_l0(tmp_path, port):
    run = run_two(BETWEEN_MODULES, tmp_path, port)

    for part in [run.part(rank=rank) for rank in run.ranks]:
        returned = part.records["Module.first.Identity.forward.0"].output[0]
        received = part.records["Module.second.Identity.forward.0"].input_args[0]
        assert part.tensor(returned).array.tolist() == [part.rank + 1] * 2
        assert part.tensor(received).array.tolist() == [3, 3]
        assert not any(name.startswith("Distributed.") for name in part.records)


def test_a_functional_collective_is_waited_for_before_it_is_read(tmp_path, port):
    run = run_two(FUNCTIONAL, tmp_path, port)

    for rank in run.ranks:
        part = run.part(rank=rank)
        record = part.records["Ops._c10d_functional.all_reduce.0.forward"]
        assert part.tensor(record.input_args[0]).array.tolist() == [rank + 1.0] * 2
        assert part.tensor(record.output[0]).array.tolist() == [3.0, 3.0]


def test_a_ddp_step_is_recorded_on_both_ranks(tmp_path, port):
    import torch

    run = run_two(DDP, tmp_path, port)

    for rank in run.ranks:
        part = run.part(rank=rank)
        assert "Module.module.0.Linear.backward.0" in part.records
        assert part.verify() == []
    assert torch.load(tmp_path / "grads0")[0].equal(torch.load(tmp_path / "grads1")[0])


def test_an_fsdp2_step_is_recorded_on_both_ranks(tmp_path, port):
    import torch

    if not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip(f"torch {torch.__version__} cannot run FSDP2 on the CPU, with or without us")

    run = run_two(FSDP, tmp_path, port)

    for rank in run.ranks:
        part = run.part(rank=rank)
        assert {name for name in part.records if name.startswith("Functional.linear")}
        assert [name for name in part.records if name.startswith("Distributed.")]
        assert part.problems == []


def test_a_collective_that_raises_is_recorded_with_its_error_like_an_api(tmp_path):
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with capture(tmp_path):
            with pytest.raises(TypeError):
                torch.distributed.all_reduce([torch.ones(2)])
            torch.distributed.all_reduce(torch.ones(2))
    finally:
        torch.distributed.destroy_process_group()

    records = open_run(tmp_path).part().records
    assert records["Distributed.all_reduce.0.forward"].error.startswith("TypeError")
    assert records["Distributed.all_reduce.1.forward"].error is None
