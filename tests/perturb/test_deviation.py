"""The largest relative deviation, by a definition of its own in plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchparity.perturb.deviation import largest_deviation
from torchparity.perturb.fused_deviation import Zeros

NAN, INF = math.nan, math.inf


def plain(left: float, right: float, floor: float) -> float:
    """The definition: what lies within the floor of zero is zero, and the smaller number is the scale."""
    if left == right or (math.isnan(left) and math.isnan(right)):
        return 0.0
    if not (math.isfinite(left) and math.isfinite(right)):
        return INF
    beyond = [math.copysign(max(abs(value) - floor, 0.0), value) for value in (left, right)]
    return abs(beyond[0] - beyond[1]) / max(min(abs(left), abs(right)), floor)


@pytest.mark.parametrize(
    ("original", "perturbed", "expected"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.0], 0.0, id="equal"),
        pytest.param([1.0, 2.0], [1.0, 2.5], 0.25, id="relative-to-the-smaller"),
        pytest.param([9e-5], [-9e-5], 0.0, id="near-zero-is-zero"),
        pytest.param([2e-4], [0.0], 1.0, id="out-of-the-floor"),
        pytest.param([NAN, INF, -INF], [NAN, INF, -INF], 0.0, id="the-same-not-finite"),
        pytest.param([1.0, NAN], [1.0, 2.0], INF, id="nan-appears"),
        pytest.param([INF], [-INF], INF, id="another-infinity"),
        pytest.param([INF], [1.0], INF, id="inf-against-a-number"),
    ],
)
def test_floats(original, perturbed, expected):
    assert largest_deviation(torch.tensor(original), torch.tensor(perturbed)) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e3, 1e3, width=32), st.floats(-1e3, 1e3, width=32)), min_size=1, max_size=6))
def test_it_is_as_defined(pairs):
    left, right = (torch.tensor(side, dtype=torch.float64) for side in zip(*pairs, strict=True))

    expected = max(plain(*pair, 1e-8) for pair in pairs)

    assert largest_deviation(left, right) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("dtype", "floor"), [(torch.float16, 1e-3), (torch.bfloat16, 1e-2), (torch.float32, 1e-4), (torch.float64, 1e-8)]
)
def test_each_dtype_has_its_floor(dtype, floor):
    zero, below, above = (torch.tensor([size], dtype=dtype) for size in (0.0, floor * 0.9, floor * 1.5))

    assert largest_deviation(zero, below) == 0
    assert largest_deviation(zero, above) == pytest.approx(0.5, rel=0.02)


def test_a_result_in_higher_precision_is_compared_in_that():
    rounded = torch.tensor([1 / 3]).bfloat16()

    deviation = largest_deviation(rounded, torch.tensor([1 / 3]))

    assert deviation == pytest.approx(abs(rounded.item() - 1 / 3) / min(rounded.item(), 1 / 3), rel=1e-3)


def test_float32_beside_float64_has_the_floor_of_float32():
    small = torch.tensor([1e-6])

    assert largest_deviation(small, small.double() + 1e-7) == 0


@pytest.mark.parametrize("values", [[1, 2, 3], [True, False, True]])
def test_integers_are_equal_or_not(values):
    tensor = torch.tensor(values)

    assert largest_deviation(tensor, tensor.clone()) == 0
    assert largest_deviation(tensor, tensor.flip(0).roll(1)) == INF


def test_another_shape_is_infinitely_far():
    assert largest_deviation(torch.zeros(2), torch.zeros(3)) == INF


def test_complex_numbers_are_compared_by_their_parts():
    assert largest_deviation(torch.tensor([1 + 2j]), torch.tensor([1 + 2.5j])) == pytest.approx(0.25)


LAYOUTS = {
    "contiguous": lambda values: values,
    "transposed": lambda values: values.t(),
    "sliced": lambda values: values[:, ::2],
    "unaligned": lambda values: values[1:].flatten()[1:],
}


_BLOCK, _PROGRAMS = 2048, 2112  # of the kernel, by which its loops and what is left of them differ


@pytest.mark.gpu
@pytest.mark.parametrize(
    "count",
    [
        1,
        _BLOCK - 1,
        _BLOCK,
        _BLOCK + 1,
        3 * _BLOCK,
        *(_PROGRAMS * _BLOCK + more for more in (-1, 0, 1, 5 * _BLOCK + 7)),
    ],
)
def test_a_device_passes_over_no_number(count, cuda):
    original, perturbed = torch.ones(count, dtype=torch.bfloat16, device=cuda), torch.ones(count, device=cuda)
    rest = count // _BLOCK * _BLOCK

    for place in {0, count // 2, max(rest - 1, 0), min(rest, count - 1), count - 1}:
        for value, expected in ((1.5, 0.5), (NAN, INF)):
            perturbed[place] = value
            assert largest_deviation(original, perturbed).item() == expected
        perturbed[place] = 1.0
    assert largest_deviation(original, perturbed).item() == 0.0


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "dtypes",
    [
        *((torch.float32, torch.float32), (torch.bfloat16, torch.float32), (torch.float16, torch.float32)),
        *((torch.bfloat16, torch.bfloat16), (torch.float16, torch.float16), (torch.float32, torch.float64)),
    ],
)
def test_a_device_gives_the_same(dtypes, layout, cuda):
    values = torch.randn(3, 1001)
    values[2, :4] = torch.tensor([NAN, INF, -INF, 1e-7])
    pair = values.to(dtypes[0]), (values * (1 + torch.randn(3, 1001) / 100)).to(dtypes[1])

    waiting = largest_deviation(*(LAYOUTS[layout](each.to(cuda)) for each in pair))

    assert 0 < waiting.item() < 1
    assert waiting.item() == pytest.approx(largest_deviation(*map(LAYOUTS[layout], pair)), rel=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(("left", "right"), [(NAN, 1.0), (1.0, NAN), (INF, -INF), (1.0, INF), (NAN, INF)])
def test_what_is_not_finite_is_infinitely_far_on_a_device_too(left, right, cuda):
    values = torch.ones(5000, device=cuda)
    original, perturbed = values.clone(), values.clone()
    original[4999], perturbed[4999] = left, right

    assert largest_deviation(original, perturbed).item() == INF


def test_zeros_for_kernels_are_float32_and_each_its_own_whatever_the_user_has_set():
    zeros = Zeros(torch.device("cpu"))
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.inference_mode():
            taken = [zeros.take() for _ in range(3)]
    finally:
        torch.set_default_dtype(torch.float32)
    taken += [zeros.take() for _ in range(600)]
    for place, zero in enumerate(taken):
        zero += place

    assert {zero.dtype for zero in taken} == {torch.float32}
    assert not any(zero.is_inference() for zero in taken)
    assert [zero.item() for zero in taken] == list(range(603))
