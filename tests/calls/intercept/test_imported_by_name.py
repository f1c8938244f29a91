"""Collectives that a script imported by name before the recording are recorded whole, as those of the module are."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed import all_gather, all_reduce, distributed_c10d

from torchparity import open_run
from torchparity.recording import capture

pytestmark = pytest.mark.skipif(
    not hasattr(distributed_c10d, "has_torch_function"), reason="this torch hands collectives to no mode"
)
NAMES = [f"Distributed.{name}.forward" for name in ("all_reduce.0", "all_reduce.1", "all_gather.0", "all_reduce.2")]


@pytest.fixture
def alone(tmp_path):
    """A process group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def communicate():
    tensor, parts = torch.full((3,), 2.0), [torch.zeros(3)]
    all_reduce(tensor)
    all_reduce(tensor, async_op=True).wait()
    all_gather(parts, tensor)
    dist.all_reduce(tensor)
    return parts


@pytest.mark.usefixtures("alone")
def test_their_records_have_what_they_wrote(tmp_path):
    with capture(tmp_path / "run"):
        parts = communicate()

    part = open_run(tmp_path / "run").part()
    assert [name for name in part.records if name.startswith("Distributed.")] == NAMES
    received = [part.records[name].output[0] for name in NAMES]
    received[2] = received[2][0]
    assert [leaf.statistics.max for leaf in received] == [2.0] * 4
    assert parts[0].tolist() == [2.0] * 3
    assert all("communicate" in part.stack_of(name)[0] for name in NAMES)


@pytest.mark.usefixtures("alone")
def test_those_nobody_listens_to_are_counted_once(tmp_path):
    with capture(tmp_path / "run", scope=["Distributed.all_gather.0.forward", "Distributed.all_reduce.2.forward"]):
        communicate()

    part = open_run(tmp_path / "run").part()
    assert [name for name in part.records if name.startswith("Distributed.")] == NAMES[2:]
