"""Chosen roundings, planted faults and missing operators; run in a process of its own by test_simulated_npu.py."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import torchparity
from torchparity.devices import device_for
from torchparity.errors import ConfigError, MissingOperatorError, ParityError, SimulationError
from torchparity.simulation import (
    DroppedBias,
    NanAt,
    NpuBehaviour,
    SaturatedOverflow,
    ScaledOutput,
    UnmaskedTail,
    WrongEpsilon,
    simulate_npu,
)

simulate_npu()
NPU = torch.device("npu:0")


@pytest.fixture(autouse=True)
def as_the_cpu():
    simulate_npu()
    torch.manual_seed(0)
    yield
    simulate_npu()


def off(mine: torch.Tensor, other: torch.Tensor) -> float:
    return ((mine.cpu().double() - other.double()).norm() / other.double().norm()).item()


@pytest.mark.parametrize(("kind", "bits"), [("tf32", 11), ("bf16", 8), ("fp16", 11)])
@pytest.mark.parametrize("terms", [16, 200])
def test_products_are_summed_in_fewer_bits(kind, bits, terms):
    left, right, bias = torch.randn(30, terms), torch.randn(40, terms), torch.randn(40)
    exact = F.linear(left.double(), right.double(), bias.double())
    simulate_npu(NpuBehaviour(accumulate=kind))
    rounded = F.linear(left.npu(), right.npu(), bias.npu())

    assert 2.0 ** -(bits + 4) < off(rounded, exact) < 2.0 ** -(bits - 2)
    assert off(torch.bmm(left.npu()[None], right.npu().t()[None])[0], left @ right.t()) > 2.0 ** -(bits + 4)


def test_convolutions_and_their_gradients_are_rounded_too():
    given, weight = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    simulate_npu(NpuBehaviour(accumulate="bf16"))
    moved = weight.npu().requires_grad_()
    result = F.conv2d(given.npu(), moved)
    result.sum().backward()

    assert torch.equal(result.detach().bfloat16().float(), result.detach())
    assert torch.equal(moved.grad.bfloat16().float(), moved.grad)


@pytest.mark.parametrize("order", ["reversed", "chunked"])
def test_sums_in_another_order_differ_in_the_last_bits(order):
    values = torch.randn(50, 1001)
    simulate_npu(NpuBehaviour(reduction_order=order))
    moved = values.npu()
    pairs = [
        (moved.sum(), values.sum()),
        (moved.mean(1), values.mean(1)),
        (moved @ moved.t(), values @ values.t()),
    ]

    assert any(not torch.equal(mine.cpu(), other) for mine, other in pairs)
    assert all(off(mine, other) < 1e-5 for mine, other in pairs)


@pytest.mark.parametrize("order", ["reversed", "chunked"])
@pytest.mark.parametrize("length", range(5))
def test_sums_of_few_terms_have_an_order_too(order, length):
    values = torch.arange(2.0 * length).reshape(2, length)
    simulate_npu(NpuBehaviour(reduction_order=order))

    assert torch.equal(values.npu().sum(1).cpu(), values.sum(1))
    assert torch.equal((values.npu() @ values.npu().t()).cpu(), values @ values.t())


def test_subnormal_numbers_become_zero():
    tiny = torch.tensor([1e-39, -1e-40, 1.0, 0.0]).npu()
    simulate_npu(NpuBehaviour(flush_subnormals=True))

    assert (tiny * 1).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert tiny.tolist()[0] != 0.0


def test_a_wrong_epsilon_in_one_call():
    given = torch.randn(4, 8).npu()
    simulate_npu(NpuBehaviour(faults=(WrongEpsilon("layer_norm", 1, eps=0.5),)))
    results = [F.layer_norm(given, (8,)).cpu() for _ in range(3)]

    assert torch.equal(results[1], F.layer_norm(given.cpu(), (8,), eps=0.5))
    assert all(torch.equal(results[call], F.layer_norm(given.cpu(), (8,))) for call in (0, 2))


def test_a_dropped_bias():
    linear, conv = torch.nn.Linear(3, 2), torch.nn.Conv1d(3, 2, 1)
    given = torch.randn(5, 3)
    plain = F.linear(given, linear.weight), F.conv1d(given[:, :, None], conv.weight)
    simulate_npu(NpuBehaviour(faults=(DroppedBias("linear"), DroppedBias("conv1d", call=None))))
    linear.npu(), conv.npu()

    torch.testing.assert_close(linear(given.npu()).cpu(), plain[0])
    torch.testing.assert_close(conv(given.npu()[:, :, None]).cpu(), plain[1])
    with pytest.raises(AssertionError):
        torch.testing.assert_close(linear(given.npu()).cpu(), plain[0])


def test_an_unmasked_tail_a_nan_and_a_factor():
    given = torch.arange(1.0, 9.0)
    faults = UnmaskedTail("neg", elements=2), NanAt("abs", index=3), ScaledOutput("square", factor=2.0)
    simulate_npu(NpuBehaviour(faults=(*faults, NanAt("tanh", 99))))
    moved = given.npu()

    assert moved.neg().tolist() == [-1, -2, -3, -4, -5, -6, -5, -6]
    assert moved.abs().isnan().nonzero().flatten().tolist() == [3]
    assert torch.npu.unmet_faults == (faults[2], NanAt("tanh", 99))


EMPTY = torch.empty(0, 3)
NOTHING_TO_CHANGE = [
    (NanAt("linear"), lambda: F.linear(EMPTY.npu(), torch.ones(2, 3).npu(), torch.ones(2).npu())),
    (NanAt("argmax", call=None), lambda: torch.ones(3).npu().argmax()),
    (ScaledOutput("neg"), lambda: EMPTY.npu().neg()),
    (UnmaskedTail("neg"), lambda: torch.ones(1).npu().neg()),
    (SaturatedOverflow("neg"), lambda: torch.ones(3).npu().neg()),
    (DroppedBias("conv1d"), lambda: F.conv1d(torch.ones(1, 1, 3).npu(), torch.ones(1, 1, 1).npu())),
    (WrongEpsilon("layer_norm", eps=1e-5), lambda: F.layer_norm(torch.ones(2, 3).npu(), (3,))),
]


@pytest.mark.parametrize(("fault", "run"), NOTHING_TO_CHANGE, ids=[str(each[0]) for each in NOTHING_TO_CHANGE])
def test_a_fault_that_changes_nothing_is_not_met(fault, run, caplog):
    simulate_npu(NpuBehaviour(faults=(fault,)))
    run()

    assert torch.npu.unmet_faults == (fault,)
    simulate_npu()
    came = "every call" if fault.call is None else "call 0"
    assert caplog.messages == [
        f"torchparity: the simulated NPU never met the fault {fault}: "
        f"{came} of {fault.operator} came and gave it nothing to change"
    ]


def test_a_fault_whose_call_never_came_is_told(caplog):
    faults = NanAt("neg"), NanAt("linear", 5), NanAt("exp", call=None)
    simulate_npu(NpuBehaviour(faults=faults))
    F.linear(torch.ones(2, 3).npu().neg(), torch.ones(2, 3).npu(), torch.ones(2).npu())
    simulate_npu()

    never = "torchparity: the simulated NPU never met the fault"
    assert caplog.messages == [
        f"{never} {faults[1]}: linear (the kernel addmm) was called once, and calls are counted from 0",
        f"{never} {faults[2]}: exp was called 0 times, and calls are counted from 0",
    ]


def test_an_overflow_saturates_and_sets_the_flag():
    given = torch.tensor([1.0, 300.0, -300.0]).npu()
    simulate_npu(NpuBehaviour(faults=(SaturatedOverflow("mul", 1, limit=100.0),)))
    plugin = device_for(NPU)
    plugin.clear_overflow(NPU)
    given * 1
    assert plugin.has_overflowed(NPU) is False

    assert (given * 1).tolist() == [1.0, 100.0, -100.0]
    assert plugin.has_overflowed(NPU) is True
    plugin.clear_overflow(NPU)
    assert plugin.has_overflowed(NPU) is False


def test_a_missing_operator_is_named_and_the_cpu_steps_in_when_asked():
    given = torch.ones(2).npu()
    simulate_npu(NpuBehaviour(lacks=frozenset({"gelu"})))
    with pytest.raises(
        MissingOperatorError, match=r"^the simulated NPU has no kernel for aten::gelu; .*uses the CPU's"
    ):
        F.gelu(given)

    simulate_npu(NpuBehaviour(lacks=frozenset({"gelu"}), falls_back_to_cpu=True))
    assert torch.equal(F.gelu(given).cpu(), F.gelu(given.cpu()))


@torch.library.custom_op("simulation_checks::twice", mutates_args=(), device_types="cpu")
def twice(value: torch.Tensor) -> torch.Tensor:
    return value * 2


def test_an_operator_of_the_user_is_missing_too():
    with pytest.raises(NotImplementedError, match="no kernel for simulation_checks::twice") as caught:
        twice(torch.ones(2).npu())
    assert isinstance(caught.value, ParityError)

    simulate_npu(NpuBehaviour(falls_back_to_cpu=True))
    assert twice(torch.ones(2).npu()).tolist() == [2.0, 2.0]


def test_sparse_tensors_are_refused():
    with pytest.raises(SimulationError, match="has no sparse_coo tensors; keep them on the CPU"):
        torch.ones(2).npu().to_sparse()


@pytest.mark.parametrize("behaviour", [NpuBehaviour(faults=(NanAt("layernorm"),)), NpuBehaviour(lacks={"layernorm"})])
def test_an_operator_that_nobody_knows_is_refused(behaviour):
    with pytest.raises(ConfigError, match=r"no operator 'layernorm'\. Did you mean 'layer_norm'\?"):
        torchparity.simulate_npu(behaviour)


def test_an_epsilon_is_planted_only_where_there_is_one():
    simulate_npu(NpuBehaviour(faults=(WrongEpsilon("exp"),)))

    with pytest.raises(ConfigError, match="cannot plant a wrong epsilon in exp, which has none"):
        torch.ones(2).npu().exp()
