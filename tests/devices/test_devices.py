"""Every device keeps the contract, and a device without a file of its own is recorded like the host."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch

from tests.support.statistics import assert_same
from torchparity import devices, open_run, plugins
from torchparity.devices import Device, all_devices, device_for
from torchparity.recording import capture
from torchparity.recording.measuring.buffer_pool import BufferPool

CPU = torch.device("cpu")
METHODS = [name for name, _ in inspect.getmembers(Device, inspect.isfunction) if not name.startswith("_")]


def test_there_is_a_file_for_each_device():
    assert plugins.names("devices") == ["cpu", "cuda", "npu", "other"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", plugins.names("devices"))
def test_a_device_keeps_the_contract(name, method):
    plugin = plugins.load("devices", name)

    assert inspect.signature(getattr(type(plugin), method)) == inspect.signature(getattr(Device, method))
    assert plugin.is_host == (name == "cpu")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("cpu", "cpu"), ("cuda:1", "cuda"), ("mps", "other"), ("xpu:0", "other"), ("meta", "other"), ("hpu", "other")],
)
def test_a_device_is_found_by_its_type(kind, name):
    assert device_for(torch.device(kind)) is plugins.load("devices", name)


def test_devices_that_are_not_there_have_no_generators_and_capture_nothing():
    for device in all_devices():
        if not device.is_host and not torch.cuda.is_initialized():
            assert device.generators() == []
            assert not device.is_capturing_graph()
    assert all_devices()[0].generators() == [torch.default_generator]


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_a_device_without_streams_is_waited_for_at_once(kind):
    device = torch.device(kind)
    device_for(device).wait(device)
    device_for(device).synchronize(device)

    assert device_for(device).has_overflowed(device) is None


@pytest.mark.parametrize("name", ["cpu", "npu", "other"])
def test_a_copy_is_not_changed_with_its_tensor(name):
    tensor = torch.arange(6.0).view(2, 3)[:, 1:]

    copy, wait = plugins.load("devices", name).copy_to_host(tensor, BufferPool())
    shape = copy.shape
    tensor.fill_(9)

    assert wait is None and shape == (2, 2)
    assert copy.array.tolist() == [[1, 2], [4, 5]]


def test_recording_on_the_host_loads_no_other_devices_software(tmp_path):
    code = f"""
import sys, torch
from torchparity.recording import capture
with capture({str(tmp_path)!r}):
    torch.ones(3).exp()
print([name for name in ("triton", "torch_npu", "torchparity.kernels.arenas.cuda") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def step():
    x = torch.arange(1.0, 7.0).view(2, 3).requires_grad_()
    half, whole = x.detach().half(), torch.arange(2**60, 2**60 + 5)
    y = (x * 2).t().exp().sum() + half.sum() + torch._neg_view(x.detach()).sum()
    y.backward()
    whole.add(1), x.detach().double().expand(4, 2, 3).add(1), torch.tensor([torch.nan, torch.inf]).exp()
    torch._foreach_add([torch.full((3,), float(number)) for number in range(12)], 1.0)


def leaves(path):
    records = open_run(path).part().records
    return {f"{record.name}.{item.name}": item.leaf for record in records.values() for item in record.items()}


@pytest.fixture
def other_device(monkeypatch):
    """Host tensors treated as those of a device without a file of its own."""
    other = plugins.load("devices", "other")
    monkeypatch.setattr(devices, "_device_of_type", lambda kind: other)
    return other


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("summary", ["statistics", "md5"])
def test_another_device_is_recorded_like_the_host(task, summary, tmp_path, request):
    with capture(tmp_path / "host", level="L1", task=task, summary_mode=summary):
        step()
    request.getfixturevalue("other_device")
    with capture(tmp_path / "other", level="L1", task=task, summary_mode=summary):
        step()

    here, there = leaves(tmp_path / "host"), leaves(tmp_path / "other")
    assert len(here) > 40 and here.keys() == there.keys()
    for name, leaf in here.items():
        assert getattr(leaf, "checksum", None) == getattr(there[name], "checksum", None), name
        statistics = getattr(leaf, "statistics", None)
        assert (statistics is None) == (getattr(there[name], "statistics", None) is None), name
        if statistics is not None:
            assert_same(there[name].statistics, statistics, 1e-6)
    assert open_run(tmp_path / "other").part().problems == []


def test_without_a_compiler_torchs_own_operators_measure(other_device, tmp_path, monkeypatch, caplog):
    def refuse(*_, **__):
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(type(other_device), "fast_arena", refuse)
    with capture(tmp_path, level="L1"):
        torch.arange(5.0).add(1)

    part = open_run(tmp_path).part()
    assert part.records["Tensor.add.0.forward"].output[0].statistics.max == 5 and part.problems == []
    assert "Failed to find C compiler" in caplog.text
