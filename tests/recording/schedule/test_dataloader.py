"""enable_dataloader: every batch is a step."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from torchparity import open_run
from torchparity.errors import RecordingEndedError
from torchparity.recording import PrecisionDebugger, capture
from torchparity.recording.schedule.dataloader import LoaderInterceptor


def batches(count=8):
    return DataLoader(TensorDataset(torch.arange(float(count))), batch_size=2)


def test_every_batch_of_a_data_loader_is_a_step(tmp_path):
    PrecisionDebugger(dump_path=tmp_path, enable_dataloader=True)
    for _ in range(2):
        for (batch,) in batches():
            torch.exp(batch)
    PrecisionDebugger.close()

    run = open_run(tmp_path)
    assert run.steps == list(range(8))
    assert all(list(part.records) == ["Torch.exp.0.forward"] for part in run.parts)


def test_after_the_last_wanted_step_the_training_ends(tmp_path):
    PrecisionDebugger(dump_path=tmp_path, enable_dataloader=True, step=[1, 2])
    done = 0
    with pytest.raises(RecordingEndedError, match="step 2 was the last"):
        for (batch,) in batches(20):
            torch.exp(batch)
            done += 1

    assert done == 3
    assert open_run(tmp_path).steps == [1, 2]
    assert len(list(batches())) == 4


def test_with_a_data_loader_start_names_the_model(tmp_path):
    model = nn.Linear(2, 1)
    debugger = PrecisionDebugger(dump_path=tmp_path, enable_dataloader=True, level="L0")
    debugger.start(model)
    for (batch,) in batches():
        model(batch)
        debugger.stop()
        debugger.step()
    debugger.close()

    run = open_run(tmp_path)
    assert run.steps == [0, 1, 2, 3]
    assert list(run.part().records) == ["Module.Linear.forward.0"]


def test_workers_of_a_data_loader_record_nothing(tmp_path):
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    with capture(tmp_path):
        loaded = [batch[0].sum() for batch in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1)]

    assert [value.item() for value in loaded] == [6.0, 22.0]
    assert open_run(tmp_path).part().verify() == []


@pytest.mark.parametrize("ends_first", [0, 1])
def test_of_two_recordings_that_watch_loaders_each_sees_its_batches_whichever_ends_first(tmp_path, ends_first):
    original = _BaseDataLoaderIter.__next__
    begun = [[], []]
    watchers = [
        LoaderInterceptor(begin_batch=partial(begun[number].append, "begin"), end_batch=lambda: None)
        for number in range(2)
    ]
    for watcher in watchers:
        watcher.attach()
    list(batches(4))
    watchers[ends_first].detach()
    list(batches(4))
    watchers[1 - ends_first].detach()
    list(batches(4))

    assert (len(begun[ends_first]), len(begun[1 - ends_first])) == (2, 4)
    assert _BaseDataLoaderIter.__next__ is original
