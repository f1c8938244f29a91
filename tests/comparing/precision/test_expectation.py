"""What is expected of single calls: exact operators, casts, sums that cancel, optimizers, faults."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from torchparity.comparing.precision.expectation import expected
from torchparity.comparing.precision.facts import CallFacts, Received, Returned

FLOAT32_UNIT = 2.0**-24


def fact(name, mine, other, kind=Received, **more):
    left, right = mine.double(), other.double()
    norm, distance = float(right.norm()), float((left - right).norm())
    return kind(
        name=name, dtype=str(mine.dtype), baseline_dtype=str(other.dtype), shape=tuple(other.shape), norm=norm,
        largest=float(right.abs().max()), mean=float(right.mean()), deviation=distance / (norm or 1.0), **more,
    )  # fmt: skip


def expectation(operator, mine, other, left, right, **facts):
    """What is expected of a call that received `left` and `right`, and how far its output is off."""
    received = [fact(f"input.{place}", *pair) for place, pair in enumerate(zip(left, right, strict=True))]
    output = fact("output.0", mine, other, Returned)
    return expected(output, received, CallFacts(operator=operator, **facts)), output.deviation


def is_blamed(operator, mine, other, left, right, **facts):
    result, deviation = expectation(operator, mine, other, left, right, **facts)
    return deviation > result.tolerance


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "operator", ["view", "transpose", "cat", "relu", "__getitem__", "embedding", "max", "where", "clone", "copy_"]
)
def test_an_exact_operator_has_no_rounding_of_its_own(operator):
    x = torch.randn(4, 4)

    result, _ = expectation(operator, x, x, [x], [x])

    assert result.own == result.inherited == result.tolerance == 0.0


@pytest.mark.parametrize(("dtype", "unit"), [(torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)])
def test_a_cast_to_fewer_bits_is_one_rounding(dtype, unit):
    x = torch.randn(64, 64)

    result, deviation = expectation("to", x.to(dtype), x, [x], [x])

    assert deviation < result.tolerance < 2 * unit
    assert result.reason == f"one rounding to {str(dtype).removeprefix('torch.')}"


def test_a_cast_to_more_bits_passes_on_what_it_received():
    x = torch.randn(64, 64)
    rounded = x.bfloat16()

    result, deviation = expectation("float", rounded.float(), x, [rounded], [x])

    assert deviation <= result.tolerance < 1.01 * deviation


def test_a_cast_that_is_wrong_by_two_units_is_blamed():
    x = torch.randn(64, 64)

    assert is_blamed("to", (x * (1 + 2**-7)).bfloat16(), x, [x], [x])


def test_a_sum_that_cancels_may_be_off_by_what_cancelled():
    gradient = torch.randn(4096, 8)
    gradient -= gradient.mean(0)
    mine, other = gradient.sum(0), gradient.flip(0).double().sum(0).float()
    call = CallFacts(operator="linear", direction="backward", forward_received=_linear_facts())
    output = fact("output.2", mine, other, Returned)

    result = expected(output, [fact("input.0", gradient, gradient)], call)

    assert 0.01 < output.deviation < result.tolerance
    assert "4,096 terms that cancel" in result.reason


def _linear_facts():
    tensors = torch.randn(4096, 16), torch.randn(8, 16), torch.randn(8)
    return [fact(f"input.{place}", tensor, tensor) for place, tensor in enumerate(tensors)]


@pytest.mark.parametrize("noise", [0.0, 1e-6])
@pytest.mark.parametrize("fault", ["bfloat16", "scale", "gelu", "epsilon", "bias", "one row"])
def test_a_fault_is_beyond_expectation(fault, noise):
    x, weight, bias = torch.randn(64, 256), torch.randn(128, 256) / 16, torch.randn(128)
    changed = x + noise * torch.randn_like(x)
    operator, left, right = "linear", [changed, weight, bias], [x, weight, bias]
    if fault == "bfloat16":
        mine, other = F.linear(*(part.bfloat16() for part in left)).float(), F.linear(*right)
    elif fault == "scale":
        mine, other = F.linear(*left) * 1.0001, F.linear(*right)
    elif fault == "bias":
        mine, other = F.linear(changed, weight), F.linear(*right)
    elif fault == "one row":
        mine, other = F.linear(*left), F.linear(*right)
        mine[3] *= 1.001
    elif fault == "gelu":
        operator, left, right = "gelu", [changed], [x]
        mine, other = F.gelu(changed, approximate="tanh"), F.gelu(x)
    else:
        operator, left, right = "layer_norm", [changed], [x]
        mine, other = F.layer_norm(changed, (256,), eps=1e-3), F.layer_norm(x, (256,), eps=1e-5)

    assert is_blamed(operator, mine, other, left, right)


def test_tf32_explains_its_own_size_and_no_more():
    x, weight = torch.randn(64, 256), torch.randn(128, 256)
    other = F.linear(x, weight)
    mine = F.linear(_tf32(x), _tf32(weight))

    assert is_blamed("linear", mine, other, [x, weight], [x, weight])
    assert not is_blamed("linear", mine, other, [x, weight], [x, weight], uses_tf32=True)
    assert is_blamed("linear", other * 1.01, other, [x, weight], [x, weight], uses_tf32=True)


def _tf32(tensor):
    """Return the tensor with ten bits after the leading one."""
    mantissa, exponent = torch.frexp(tensor)
    return torch.ldexp(torch.round(mantissa * 2**11) / 2**11, exponent)


def _adam(gradient, factor=1.0):
    start, second = torch.ones_like(gradient), gradient.square().sqrt() + 1e-8
    received = [start, 0.1 * gradient, second]
    return torch.addcdiv(*received, value=-0.01 * factor), received


@pytest.mark.parametrize("size", [(4096,), (64, 64)])
def test_an_optimizer_is_excused_within_bounds(size):
    gradient = torch.randn(size)
    other, right = _adam(gradient)
    mine, left = _adam(gradient + 1e-7 * torch.randn(size))
    facts = {"in_optimizer": True, "arguments": {"input.value": -0.01}}

    assert not is_blamed("addcdiv_", mine, other, left, right, **facts)
    wrong, left = _adam(gradient + 1e-7 * torch.randn(size), factor=1.1 if len(size) == 2 else 5.0)
    assert is_blamed("addcdiv_", wrong, other, left, right, **facts)


def test_plain_descent_has_no_excuse():
    weight, gradient = torch.randn(64), torch.randn(64)
    changed = gradient + 1e-6 * torch.randn(64)
    facts = {"in_optimizer": True, "arguments": {"input.alpha": -0.1}}
    other = torch.add(weight, gradient, alpha=-0.1)

    right, left = [weight, gradient], [weight, changed]
    assert not is_blamed("add_", torch.add(weight, changed, alpha=-0.1), other, left, right, **facts)
    assert is_blamed("add_", torch.add(weight, changed, alpha=-0.1001), other, left, right, **facts)


def test_calls_on_lists_look_at_their_own_entry():
    good, bad = torch.randn(8), torch.randn(8)
    received = [fact("input.0.0", good, good), fact("input.0.1", bad * 1.1, bad), fact("input.1", good[0], good[0])]
    call = CallFacts(operator="_foreach_mul_")

    tolerances = [expected(fact(f"output.{place}", bad, bad, Returned), received, call).tolerance for place in (0, 1)]

    assert tolerances[0] < 1e-6 < 0.1 < tolerances[1]


def test_whole_numbers_are_exact_until_a_choice_may_turn():
    scores, chosen = torch.randn(100, 10), torch.arange(100)
    changed = scores * (1 + 1e-3 * torch.randn(100, 10))
    other = chosen.clone()
    other[7] += 1

    assert is_blamed("argmax", chosen, other, [scores], [scores])
    assert not is_blamed("argmax", chosen, other, [changed], [scores])
    assert is_blamed("argmax", chosen.flip(0), other, [scores * (1 + 1e-7)], [scores])


def test_an_index_that_differs_explains_what_it_chose():
    x, index = torch.randn(8, 4), torch.arange(8)

    result, _ = expectation("__getitem__", x, x, [x, index.flip(0)], [x, index])

    assert result.tolerance >= 2.0


def test_small_numbers_of_float16_have_an_absolute_floor():
    x = torch.full((16,), 3e-8)

    assert not is_blamed("mul", torch.full((16,), 6e-8).half(), x, [x.half()], [x])


def test_unknown_sizes_are_judged_in_relative_terms():
    known = {"dtype": "torch.float32", "baseline_dtype": "torch.float32", "shape": (4,)}
    received = [Received(name="input.0", deviation=1e-6, **known)]

    result = expected(Returned(name="output.0", **known), received, CallFacts(operator="linear"))

    assert 1e-6 < result.tolerance < 1e-4


def test_nothing_is_expected_where_nothing_is_known_of_the_inputs():
    known = {"dtype": "torch.float32", "baseline_dtype": "torch.float32", "shape": (4,), "norm": 1.0, "largest": 1.0}

    unread = expected(
        Returned(name="output.0", **known), [Received(name="input.0", **known)], CallFacts(operator="mul")
    )

    assert unread.tolerance == math.inf


def test_an_estimate_has_a_margin():
    x = torch.randn(64)
    changed = x * (1 + 1e-5 * torch.randn(64))
    received = [fact("input.0", changed, x), fact("input.0", changed, x, is_estimated=True)]
    outputs = [fact("output.0", changed, x, Returned), fact("output.0", changed, x, Returned, is_estimated=True)]
    call = CallFacts(operator="neg")

    measured, estimated = (expected(output, [part], call) for output, part in zip(outputs, received, strict=True))

    assert estimated.tolerance > 3 * measured.tolerance


@pytest.mark.parametrize("terms", [3, 6, 12, 24, 48])
def test_a_mean_of_few_numbers_is_one_number_whose_error_is_not_the_usual_one(terms):
    left = torch.rand(2000, terms) + 0.3
    right = (left.double() * (1 + 1e-7 * torch.randn(2000, terms).double())).float()

    blamed = [is_blamed("mean", x.mean(), y.mean(), [x], [y]) for x, y in zip(left, right, strict=True)]

    assert sum(blamed) == 0


@pytest.mark.parametrize(
    ("operator", "kernel"),
    [
        ("round", torch.round),
        ("floor", torch.floor),
        ("trunc", torch.trunc),
        ("sgn", torch.sgn),
        ("remainder", lambda x: torch.remainder(x, 3.0)),
    ],
)
@pytest.mark.parametrize("noise", [5e-4, 3e-3, 2e-2])
def test_numbers_near_a_jump_turn_when_they_are_off(operator, kernel, noise):
    x = 10 * torch.randn(256, 256)
    y = x + 10 * noise * torch.randn(256, 256)

    assert not torch.equal(kernel(x), kernel(y))
    assert not is_blamed(operator, kernel(x), kernel(y), [x], [y])


@pytest.mark.parametrize("operator", ["round", "floor", "remainder"])
def test_equal_numbers_do_not_turn(operator):
    x = 10 * torch.randn(256, 256)
    y = x.round()
    y[3, 5] += 1

    assert is_blamed(operator, y, x.round(), [x], [x])


def test_another_way_to_round_is_not_what_noise_turns():
    x = 10 * torch.randn(256, 256)
    y = x * (1 + 1e-6 * torch.randn(256, 256))

    assert is_blamed("round", x.floor(), y.round(), [x], [y])
