"""The simulated NPU as a device of torch; run in a process of its own by test_simulated_npu.py."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import torchparity
from tests.support.bits import same_bits
from torchparity.errors import SimulationError

NPU = torchparity.simulate_npu()
NPU_RANGE = torch.arange(4.0, device="npu")


def test_tensors_and_modules_move_there_and_back():
    tensor, module = torch.arange(6.0).view(2, 3), torch.nn.Linear(3, 2)
    before = list(map(id, module.parameters()))

    assert all(each.is_npu for each in (tensor.npu(), tensor.to("npu"), tensor.to("npu:0")))
    assert module.npu().weight.device == torch.device("npu:0")
    assert list(map(id, module.parameters())) == before
    assert type(tensor.npu()) is torch.Tensor and not tensor.is_npu
    assert same_bits(tensor.npu().cpu(), tensor)
    assert same_bits(tensor.npu().to("cpu", non_blocking=True), tensor)


def test_the_module_of_the_device_answers():
    assert torch.npu is NPU and torch.npu.is_available() and torch.npu.device_count() == 1
    assert "simulated" in torch.npu.get_device_name()
    torch.npu.set_device(0)
    torch.npu.synchronize()
    with torch.npu.device("npu:0"):
        assert torch.npu.current_device() == 0


@pytest.mark.parametrize("ask", [lambda: torch.ones(2, device="npu:1"), lambda: torch.npu.set_device("npu:1")])
def test_there_is_one_device(ask):
    with pytest.raises(SimulationError, match="there is no npu:1; the simulated NPU is npu:0 alone"):
        ask()


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.rand, torch.randn, torch.randperm, torch.arange])
def test_factories_make_what_the_cpu_makes(make):
    torch.manual_seed(5)
    here = make(7)
    torch.manual_seed(5)
    there = make(7, device="npu")

    assert there.is_npu and same_bits(there.cpu(), here)


def test_views_share_memory_and_versions():
    base = torch.zeros(3, 4, device="npu")
    view = base.t()[1:]
    view.fill_(2)

    assert view._base is base and base._version == view._version == 1
    assert view.untyped_storage()._cdata == base.untyped_storage()._cdata
    assert view.data_ptr() == base.data_ptr() + base.element_size()
    assert base.sum().item() == 18
    assert base.view(-1).view(torch.int32).data_ptr() == base.data_ptr()


def test_memory_lives_as_long_as_a_view_of_it():
    view = torch.arange(1000.0, device="npu")[990:]
    for _ in range(50):
        torch.full((1000,), 7.0, device="npu")

    assert view.tolist() == list(range(990, 1000))


def test_a_tensor_grows_without_its_views():
    tensor = torch.arange(3.0, device="npu")
    view = tensor[1:]
    tensor.resize_(600).fill_(5)

    assert tensor.cpu().eq(5).all() and tensor.untyped_storage().nbytes() == 2400
    assert view.tolist() == [1.0, 2.0]
    out = torch.empty(0, device="npu")
    torch.add(view, 1, out=out)
    assert out.tolist() == [2.0, 3.0]


def test_random_numbers_are_those_of_the_cpu_and_can_be_kept():
    torch.manual_seed(3)
    here = torch.randn(9), torch.nn.functional.dropout(torch.ones(50), 0.3), torch.randint(99, (9,))
    torch.npu.manual_seed_all(3)
    there = torch.randn(9, device="npu"), torch.nn.functional.dropout(torch.ones(50, device="npu"), 0.3)
    state = torch.npu.get_rng_state()
    last = torch.randint(99, (9,), device="npu")

    for mine, other in zip((*there, last), here, strict=True):
        assert same_bits(mine.cpu(), other)
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randint(99, (9,), device="npu"), last)


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_the_gradient_of_a_dropout_is_that_of_the_cpu(rate):
    gradients = []
    for device in ("cpu", "npu"):
        torch.manual_seed(3)
        values = torch.ones(50, device=device, requires_grad=True)
        torch.nn.functional.dropout(values, rate).sum().backward()
        assert values.grad is not None
        gradients.append(values.grad.cpu())

    assert same_bits(*gradients)


def test_the_gradient_of_a_dropout_with_scale_zero_is_zero():
    kept = torch.ones(4, dtype=torch.bool, device="npu")

    assert torch.ops.aten.native_dropout_backward(NPU_RANGE, kept, 0.0).tolist() == [0.0] * 4


def test_the_generator_of_the_cpu_can_be_shared():
    torchparity.simulate_npu(torchparity.NpuBehaviour(shares_cpu_generator=True))
    torch.manual_seed(0)
    mixed = [torch.rand(1).item(), torch.rand(1, device="npu").item()]
    torchparity.simulate_npu()
    torch.manual_seed(0)

    assert mixed == torch.rand(2).tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_casts_as_on_the_cpu(dtype):
    module, given = torch.nn.Linear(3, 2), torch.randn(4, 3)
    with torch.autocast("cpu", dtype=dtype):
        here = module(given), torch.cat([given, module(given).repeat(1, 2)[:, :3]]), module(given).softmax(-1)
    module.npu()
    with torch.autocast("npu", dtype=dtype):
        moved = given.npu()
        there = module(moved), torch.cat([moved, module(moved).repeat(1, 2)[:, :3]]), module(moved).softmax(-1)

    for mine, other in zip(there, here, strict=True):
        assert same_bits(mine.cpu(), other)
    assert module(given.npu()).dtype is torch.float32


def test_state_is_saved_and_loaded():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).npu()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    kept = torch.load(file, map_location="cpu")
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).npu()
    other.load_state_dict(kept)

    assert {each.device.type for each in kept.values()} == {"cpu"}
    for mine, its in zip(module.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, its)


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_tensors_and_modules_are_pickled(protocol):
    module = torch.nn.Linear(3, 2).npu()
    view = torch.arange(6.0).view(2, 3).npu().t()[1:]
    kept, parameter, other = pickle.loads(pickle.dumps((view, module.weight, module), protocol))

    assert kept.is_npu and kept.stride() == view.stride() and same_bits(kept.cpu(), view.cpu())
    assert type(parameter) is torch.nn.Parameter and parameter.requires_grad
    assert same_bits(parameter.detach().cpu(), module.weight.detach().cpu())
    assert torch.equal(other(torch.ones(1, 3).npu()), module(torch.ones(1, 3).npu()))
    kept.fill_(9)
    assert view.sum() == 12  # memory of its own


@pytest.mark.parametrize("form", [False, True])
def test_a_saved_tensor_comes_back_to_the_device(form):
    file = io.BytesIO()
    torch.save({"all": NPU_RANGE, "part": NPU_RANGE[2:]}, file, _use_new_zipfile_serialization=form)
    file.seek(0)
    loaded = torch.load(file)

    assert loaded["all"].is_npu and loaded["all"].tolist() == NPU_RANGE.tolist()
    loaded["all"][2] = 7
    assert loaded["part"].tolist() == [7.0, 3.0]


def test_copies_of_modules_and_of_storages_have_memory_of_their_own():
    module = torch.nn.BatchNorm1d(2).npu()
    copied = copy.deepcopy(module)
    module.running_mean.fill_(3)
    storage = module.running_mean.untyped_storage().clone()

    assert copied.running_mean.is_npu and copied.running_mean.tolist() == [0.0, 0.0]
    assert storage.device.type == "npu" and torch.empty(0, device="npu").set_(storage).tolist() == [3.0, 3.0]
    assert torch.UntypedStorage(3).device.type == "cpu"


def test_a_checkpoint_is_loaded_straight_to_the_device(tmp_path):
    torch.save({"weight": torch.arange(4.0)}, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", map_location="npu")["weight"]

    assert loaded.is_npu and loaded.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_loader_may_pin_its_batches():
    loader = DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2, pin_memory=True)

    assert [batch.npu().tolist() for (batch,) in loader] == [[0.0, 1.0], [2.0, 3.0]]


def test_devices_do_not_mix():
    with pytest.raises(RuntimeError, match=r"all tensors to be on the same device.*npu:0 and cpu"):
        torch.ones(3, device="npu") + torch.ones(3)
    assert (torch.ones(3, device="npu") * torch.tensor(2.0)).tolist() == [2.0] * 3


def test_the_cpu_is_as_before():
    tensor = torch.arange(4.0, requires_grad=True)
    tensor.exp().sum().backward()

    assert tensor.grad.device.type == "cpu" and torch.equal(tensor.grad, tensor.exp())
    assert torch.ones(2).device.type == "cpu"
