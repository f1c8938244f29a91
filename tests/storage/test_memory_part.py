"""A part in memory: read like one on disk."""

from __future__ import annotations

import numpy as np
import pytest

from torchparity.errors import NotRecordedError
from torchparity.records import Record, RunInfo, StackGroup, TensorLeaf
from torchparity.storage import MemoryPart, OriginTable, SharedTensor
from torchparity.tensors import HostTensor

VALUES = np.arange(6, dtype=np.float32)


def part_of(values: SharedTensor, **given: object) -> MemoryPart:
    whole = TensorLeaf(dtype="torch.float32", shape=(6,), origin=-1)
    shaped = TensorLeaf(dtype="torch.float32", shape=(2, 3), origin=0)
    record = Record(name="Torch.exp.0.forward", direction="forward", input_args=[whole], output=[shaped])
    shared = {"input.0": values, "output.0": values}
    return MemoryPart(3, 1, RunInfo(task="tensor"), [(record, shared)], **given)


def test_values_come_in_the_shape_of_each_item():
    part = part_of(SharedTensor(HostTensor.from_numpy(VALUES)))

    values = dict(part.values())

    assert np.array_equal(values["Torch.exp.0.forward.input.0"].array, VALUES)
    assert np.array_equal(values["Torch.exp.0.forward.output.0"].array, VALUES.reshape(2, 3))


def test_values_are_waited_for():
    waited = []
    part = part_of(SharedTensor(HostTensor.from_numpy(VALUES), ready=lambda: waited.append(True)))

    assert not waited
    part.tensor(next(part.records["Torch.exp.0.forward"].tensors()))
    assert waited


def test_values_that_were_let_go_of_are_refused_and_records_stay():
    part = part_of(SharedTensor(HostTensor.from_numpy(VALUES)))

    part.release_values()

    assert list(part.records) == ["Torch.exp.0.forward"]
    with pytest.raises(NotRecordedError, match="memory has no values of"):
        part.tensor(next(part.records["Torch.exp.0.forward"].tensors()))


def test_it_tells_what_a_part_on_disk_tells():
    stack = StackGroup(["Torch.exp.0.forward"], ["File a.py, line 1, in f"])
    part = part_of(
        SharedTensor(HostTensor.from_numpy(VALUES)),
        stacks=[stack],
        construct={"Torch.exp.0.forward": "Module.A.forward.0"},
        origins=OriginTable(["parameter a"], 1),
        missing=["something is missing."],
    )
    leaf = part.record("Torch.exp.0.forward").input_args[0]

    assert (part.step, part.rank, part.info.task) == (3, 1, "tensor")
    assert part.info.tool.startswith("torchparity ")
    assert part.stack_of("Torch.exp.0.forward") == stack.frames
    assert part.construct == {"Torch.exp.0.forward": "Module.A.forward.0"}
    assert [(origin.kind, origin.name) for origin in part.origins_of(leaf)] == [("parameter", "a")]
    assert part.missing == ["something is missing."]
    assert part.is_complete and part.stored_bytes() == 0
    assert repr(part) == "MemoryPart(step=3, rank=1)"


def test_origins_of_another_number_of_records_are_not_told():
    part = part_of(SharedTensor(HostTensor.from_numpy(VALUES)), origins=OriginTable(["parameter a"], 2))

    assert not part.tells_origins
