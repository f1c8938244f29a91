"""Checking on CUDA: no bit of the training changes, and no call waits for the device."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.support.cuda_waits import no_waits
from tests.support.perturbing import MODES, mode_fields, perturbing, rows_in, same
from torchparity import PrecisionDebugger
from torchparity.perturb.rerunning import RandomState
from torchparity.perturb.widening import widened

pytestmark = pytest.mark.gpu


def trained(device, dtype, **fields):
    """Train two steps, watched where there are fields; return everything that a tool must not change."""
    torch.manual_seed(0)
    layers = nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(128), nn.ReLU(inplace=True), nn.Linear(128, 8)
    model = nn.Sequential(*layers).to(device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    debugger = PrecisionDebugger(task="free_benchmark", **fields) if fields else None
    losses = []
    for _ in range(2):
        if debugger is not None:
            debugger.start(model)
        optimizer.zero_grad()
        loss = model(torch.randn(32, 64, device=device, dtype=dtype)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
        if debugger is not None:
            debugger.stop()
            debugger.step()
    PrecisionDebugger.close()
    parameters = [parameter.detach().cpu() for parameter in model.parameters()]
    gradients = [parameter.grad.cpu() for parameter in model.parameters()]
    return [losses, parameters, gradients, torch.cuda.get_rng_state(device), torch.get_rng_state()]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("stage", ["forward", "backward"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_is_bit_identical(dtype, mode, stage, cuda, tmp_path, capsys):
    backward = {"fuzz_stage": "backward", "list": ["."]} if stage == "backward" else {}

    watched = trained(cuda, dtype, dump_path=tmp_path, **mode_fields(mode), **backward)

    assert same(watched, trained(cuda, dtype))
    assert " raised " not in capsys.readouterr().out
    if dtype is torch.float32 and mode == "no_change":
        assert rows_in(tmp_path) == []


def test_no_call_waits_for_the_device(cuda, tmp_path):
    values = torch.randn(64, 64, device=cuda).bfloat16()
    with perturbing(tmp_path, pert_mode="improve_precision", list=["gelu", "mul"]):
        F.gelu(values)  # what is loaded the first time may wait
        with no_waits():
            F.gelu(values)
            torch.mul(values, values)

    assert rows_in(tmp_path) == []


def test_no_step_waits_for_the_device_and_rows_come_in_order(cuda, tmp_path):
    large, small = torch.tensor([1e7 + 1], device=cuda), torch.tensor([1e7], device=cuda)
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=tmp_path, pert_mode="bit_noise", list=["Torch.sub"])
    for step in range(4):
        with no_waits() if step else nullcontext():  # what is loaded the first time may wait
            debugger.start()
            torch.sub(large, small)
            torch.sub(large, small)
            debugger.stop()
            debugger.step()
    PrecisionDebugger.close()

    found = [(row["step"], row["api_name"]) for row in rows_in(tmp_path)]
    assert found == [(str(step), f"Torch.sub.{call}.forward") for step in range(4) for call in range(2)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("first", [0, 1], ids=["aligned", "not aligned"])
def test_a_large_tensor_is_widened_bit_for_bit(dtype, first, cuda):
    bits = torch.arange(3 << 19, device=cuda, dtype=torch.int32).to(torch.int16)  # every number of 16 bits, many times
    values = bits.view(dtype)[first:-5]

    wide = widened(values, torch.float32)

    is_number = ~values.isnan()
    assert torch.equal(wide[is_number].view(torch.int32), values[is_number].to(torch.float32).view(torch.int32))
    assert torch.equal(wide.isnan(), values.isnan())


@pytest.mark.parametrize("layout", ["transposed", "channels last", "every second"])
def test_a_large_tensor_is_widened_with_its_strides(layout, cuda):
    values = torch.randn(64, 64, 32, 32, device=cuda).bfloat16()
    values = {
        "transposed": values.transpose(0, 2),
        "channels last": values.contiguous(memory_format=torch.channels_last),
        "every second": values[::2],
    }[layout]

    wide = widened(values, torch.float32)

    assert torch.equal(wide, values.to(torch.float32))
    assert wide.stride() == values.to(torch.float32).stride()


def test_a_large_tensor_is_widened_within_the_graph(cuda):
    values = torch.randn(1 << 21, device=cuda).bfloat16().requires_grad_()

    widened(values, torch.float32).sum().backward()

    assert torch.equal(values.grad, torch.ones_like(values))


@pytest.mark.parametrize("reseeds", [False, True], ids=["drawn from", "seeded anew"])
def test_a_generator_goes_on_from_where_it_was(reseeds, cuda):
    torch.manual_seed(7)
    torch.rand(100, device=cuda)
    state = RandomState()
    generator = torch.cuda.default_generators[0]
    before = generator.get_state()
    expected = torch.rand(50, device=cuda)
    if reseeds:
        torch.cuda.manual_seed(8)

    state.restore()

    assert torch.equal(generator.get_state(), before)
    assert torch.equal(torch.rand(50, device=cuda), expected)


def test_noise_finds_cancellation_on_the_device(cuda, tmp_path):
    values = torch.randn(64, 1000, device=cuda) + 1000

    with perturbing(tmp_path, pert_mode="bit_noise"):
        (values * values).mean(-1) - values.mean(-1) ** 2

    assert [row["api_name"] for row in rows_in(tmp_path)] == ["Tensor.sub.0.forward"]


def test_a_hilbert_matrix_is_ill_conditioned_on_the_device_too(cuda, tmp_path):
    matrix = torch.tensor([[1 / (row + column + 1) for column in range(8)] for row in range(8)], device=cuda)

    with perturbing(tmp_path, significance=8, list=["solve"]):
        torch.linalg.solve(matrix, torch.ones(8, device=cuda))

    (row,) = [row for row in rows_in(tmp_path, "significance.csv") if row["kind"] == "api"]
    assert row["verdict"] == "ill-conditioned"
