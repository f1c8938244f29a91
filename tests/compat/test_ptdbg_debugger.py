"""PrecisionDebugger of ptdbg_ascend: what configure_hook says is recorded, by hand or batch by batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from torchparity import ParityError, open_run
from torchparity.compat.ptdbg_debugger import PrecisionDebugger
from torchparity.errors import RecordingEndedError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    PrecisionDebugger.close()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def iterate(model):
    model(torch.ones(3, 4)).sum().backward()


def test_its_debugger_records_what_configure_hook_says(model):
    debugger = PrecisionDebugger(dump_path="run", step=[1])
    debugger.configure_hook(mode="api_list", api_list=["relu"], summary_mode="md5")
    try:
        for _ in range(3):
            debugger.start()
            iterate(model)
            debugger.stop()
            debugger.step()
    finally:
        debugger.close()

    (part,) = open_run("run").parts
    assert part.step == 1
    assert set(part.records) == {"Functional.relu.0.forward", "Functional.relu.0.backward"}
    assert part.record("Functional.relu.0.forward").output[0].checksum is not None


def test_batches_are_recorded_without_start_and_the_last_step_ends_the_training(model):
    debugger = PrecisionDebugger(dump_path="run", step=1, enable_dataloader=True)
    debugger.configure_hook(mode="api_list", api_list=["relu"])

    with pytest.raises(RecordingEndedError):
        for batch in DataLoader([torch.ones(4)] * 8, batch_size=2):
            model(batch).sum().backward()
    PrecisionDebugger.close()

    (part,) = open_run("run").parts
    assert part.step == 1
    assert set(part.records) == {"Functional.relu.0.forward", "Functional.relu.0.backward"}


@pytest.mark.parametrize("step", ["1", [1.5], [-1]])
def test_steps_that_are_no_numbers_are_refused(step):
    with pytest.raises(ParityError, match="step takes the numbers of steps"):
        PrecisionDebugger(dump_path="run", step=step)
