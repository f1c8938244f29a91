"""A step in memory is the step that a recording writes, and its verdict is that of comparing two runs."""

from __future__ import annotations

import copy

import msgspec
import numpy as np
import pytest
import torch

import torchparity
from tests.support.twins import twins
from tests.support.zoo import ZOO
from torchparity.recording.in_memory import MemoryRecording
from torchparity.records import Record


def without_places(record: Record) -> Record:
    """Return a record without what only a file has, or only a clock."""
    plain = record.replace_tensors(lambda _, leaf: msgspec.structs.replace(leaf, data_name=None, stored_in=None))
    return msgspec.structs.replace(plain, seconds=None)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("animal", ["resnet", "llama", "lstm", "nested", "in-place", "checkpoint", "custom-function"])
def test_records_in_memory_are_those_on_disk(tmp_path, animal, task):
    torch.manual_seed(0)
    model = ZOO[animal].build()
    inputs, _ = ZOO[animal].batch()

    def work():
        torch.manual_seed(1)
        model.zero_grad()
        logits = model(inputs)
        (logits * torch.arange(float(logits.shape[-1]))).sum().backward()

    twin = copy.deepcopy(model)
    with torchparity.capture(tmp_path / "run", model=model, level="mix", task=task):
        work()
    model = twin
    with MemoryRecording(model, level="mix", task=task) as recording:
        with recording.step():
            work()
        part = recording.take()

    written = torchparity.open_run(tmp_path / "run").part()
    assert list(part.records) == list(written.records)
    for name, record in written.records.items():
        assert without_places(part.records[name]) == without_places(record)
    assert part.construct == written.construct
    assert part.info.environment == written.info.environment
    for name, record in written.records.items():
        mine = [part.origins_of(leaf) for leaf in part.records[name].tensors()]
        assert mine == [written.origins_of(leaf) for leaf in record.tensors()]
    mine, others = dict(part.values()), dict(written.values())
    assert mine.keys() == others.keys()
    assert bool(mine) == (task == "tensor")
    for name, values in mine.items():
        assert values.dtype == others[name].dtype
        assert np.array_equal(values.raw(), others[name].raw()) and values.shape == others[name].shape


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_the_verdict_is_that_of_two_runs(tmp_path, task):
    candidate, baseline, tokens = twins()
    candidate.blocks[1].norm.eps = 1e-3
    torch.manual_seed(3)
    result = torchparity.lockstep(candidate, baseline, tokens, task=task)
    for name, model in (("candidate", candidate), ("baseline", baseline)):
        torch.manual_seed(3)
        with torchparity.capture(tmp_path / name, model=model, task=task):
            model(tokens)

    expected = torchparity.compare(tmp_path / "candidate", tmp_path / "baseline")

    assert result.verdict == expected.verdict
    assert result.comparison.counts() == expected.counts()
    assert result.comparison.rows_compared() == expected.rows_compared()


def test_values_are_let_go_of_when_a_step_was_compared():
    candidate, baseline, tokens = twins()

    part = torchparity.lockstep(candidate, baseline, tokens, task="tensor").comparison.parts[0]

    leaf = next(part.candidate.records["Module.head.Linear.forward.0"].tensors())
    with pytest.raises(torchparity.ParityError, match="memory has no values"):
        part.candidate.tensor(leaf)
