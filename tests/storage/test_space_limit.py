"""A run stops growing at `max_bytes` and before the disk is full; what it has stays readable and says what it lacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from torchparity import HostTensor, Record, RunWriter, TensorLeaf, open_run
from torchparity.storage import SharedTensor
from torchparity.storage.writing.space_limit import SpaceLimit

KIB, GIB = 1 << 10, 1 << 30
LEAF = TensorLeaf(dtype="torch.uint8", shape=(KIB,))


class Usage(NamedTuple):
    total: int
    free: int


def write_steps(path, *, steps=2, calls=10, early=False, **limits):
    """Write tensors of 1 KiB each, ahead of their records where `early`."""
    rng = np.random.default_rng(0)
    with RunWriter(path, task="tensor", **limits) as writer:
        for step in range(steps):
            writer.start_step(step)
            for call in range(calls):
                shared = SharedTensor(HostTensor.from_numpy(rng.integers(0, 256, KIB, dtype=np.uint8)))
                if early:
                    writer.store(shared)
                record = Record(name=f"Torch.exp.{call}.forward", direction="forward", input_args=[LEAF])
                writer.add(record, {"input.0": shared})
            writer.finish_step()
    return writer


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("tensor_format", ["safetensors", "pt"])
def test_values_end_at_max_bytes_and_records_do_not(tmp_path, tensor_format, early):
    writer = write_steps(tmp_path, tensor_format=tensor_format, max_bytes=14 * KIB, early=early)

    parts = open_run(tmp_path).parts
    assert [len(part.records) for part in parts] == [10, 10]
    stored = [len(list(part.tensors())) for part in parts]
    assert 5 <= sum(stored) < 14 and stored[0] >= stored[1]
    values = sum(file.stat().st_size for file in tmp_path.rglob("dump_tensor_data/*"))
    assert values <= 14 * KIB
    assert [report.valueless for report in writer.reports.values()] == [10 - number for number in stored]
    assert writer.values_end == "max_bytes of 14.0 KiB is reached"
    assert f"the values of {10 - stored[1]} tensors were left out: {writer.values_end}." in parts[1].problems[0]
    assert all(set(part.verify()) == set(part.problems) for part in parts)


def test_a_run_below_max_bytes_is_whole(tmp_path):
    writer = write_steps(tmp_path, max_bytes=GIB)

    assert writer.values_end is None
    assert all(part.verify() == [] for part in open_run(tmp_path).parts)


def test_values_end_before_the_disk_is_full(tmp_path):
    free = 100 * KIB
    room = free - 50 * KIB  # the margin: one part in twenty of the disk

    def disk_usage(path):
        used = sum(file.stat().st_size for file in path.rglob("*.safetensors"))
        return Usage(total=1000 * KIB, free=free - used)

    writer = write_steps(tmp_path, calls=40, disk_usage=disk_usage)

    stored = sum(len(list(part.tensors())) for part in open_run(tmp_path).parts)
    assert 30 <= stored <= room // KIB
    assert writer.values_end is not None and "50.0 KiB are kept free" in writer.values_end
    assert [len(part.records) for part in open_run(tmp_path).parts] == [40, 40]


@pytest.mark.parametrize("usage", [Usage(total=0, free=0), OSError("no such device")])
def test_a_disk_of_unknown_size_is_written_to(tmp_path, usage):
    def disk_usage(_):
        if isinstance(usage, OSError):
            raise usage
        return usage

    writer = write_steps(tmp_path, disk_usage=disk_usage)

    assert writer.values_end is None and writer.space_warning() is None


def test_the_disk_is_looked_at_now_and_then_not_for_every_tensor(tmp_path):
    looks = []

    def disk_usage(path):
        looks.append(path)
        return Usage(total=1000 * GIB, free=500 * GIB)

    write_steps(tmp_path, calls=100, disk_usage=disk_usage)

    assert 1 <= len(looks) <= 2


@pytest.mark.parametrize(
    ("free", "max_bytes", "words"),
    [
        pytest.param(500 * GIB, None, None, id="plenty"),
        pytest.param(3 * GIB, None, "has 3.0 GiB free; tensors are written until 1.0 GiB are left", id="little"),
        pytest.param(10 * GIB, 20 * GIB, "has 10.0 GiB free, and max_bytes is 20.0 GiB", id="less-than-max-bytes"),
        pytest.param(3 * GIB, GIB, None, id="enough-for-max-bytes"),
    ],
)
def test_little_space_is_told_beforehand_with_numbers(tmp_path, free, max_bytes, words):
    limit = SpaceLimit(tmp_path, max_bytes, lambda _: Usage(total=1000 * GIB, free=free))

    warning = limit.warning()

    assert (warning is None) == (words is None)
    assert words is None or words in warning
