"""Metrics against their formulas, written out one element at a time."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from torchparity.check.judging.float_formats import float_format
from torchparity.check.judging.metrics import float_metrics

NUMPY = {"torch.float32": np.float32, "torch.float16": np.float16, "torch.bfloat16": ml_dtypes.bfloat16}
# small values of the benchmark standard; limits of the absolute threshold; counted ULPs
LIMITS = {
    "torch.float32": (2.0**-14, 2.0**-30, 1e-6, 1e-6, 1e-9, 32),
    "torch.float16": (2.0**-11, 2.0**-16, 1e-3, 1e-3, 1e-5, 1),
    "torch.bfloat16": (2.0**-8, 2.0**-16, 4e-3, 1e-3, 1e-5, 1),
}


def ulp_of(number, dtype):
    """The distance of the neighbours of `dtype` at a number, by its bits and its smallest exponent."""
    bits = {"torch.float32": 23, "torch.float16": 10, "torch.bfloat16": 7}[dtype]
    lowest = {"torch.float32": -126, "torch.float16": -14, "torch.bfloat16": -126}[dtype]
    exponent = lowest if number == 0 else max(lowest, math.frexp(abs(number))[1] - 1)
    return math.ldexp(1.0, exponent - bits)


def expected(device, reference, dtype):
    """Every metric by its definition, with Python's numbers."""
    small_at, small_error, rtol, limit, atol, ulps_counted = LIMITS[dtype]
    pairs = [(float(d), float(r)) for d, r in zip(device, reference, strict=True)]
    epsilon = ulp_of(1.0, dtype)
    errors = [abs(d - r) for d, r in pairs]
    relative = [e / (abs(r) or epsilon) for e, (_, r) in zip(errors, pairs, strict=True)]
    rounded = [float(NUMPY[dtype](r)) for _, r in pairs]
    ulps = [e / ulp_of(r, dtype) for e, (_, r) in zip(errors, pairs, strict=True)]
    small = [e for e, (_, r) in zip(errors, pairs, strict=True) if abs(r) < small_at]
    normal = [e for e, (_, r) in zip(relative, pairs, strict=True) if abs(r) >= small_at]
    over_limit = [e for e, (_, r) in zip(relative, pairs, strict=True) if abs(r) >= limit]
    under_limit = [e for e, (_, r) in zip(errors, pairs, strict=True) if abs(r) < limit]
    n = len(pairs)

    def share(parts):
        return sum(parts) / len(parts) if parts else 0.0

    return {
        "max_abs": max(errors),
        "within_hundredth": share([e < 0.01 for e in relative]),
        "within_thousandth": share([e < 0.001 for e in relative]),
        "within_ten_thousandth": share([e < 0.0001 for e in relative]),
        "bitwise_error_rate": share([d != r for (d, _), r in zip(pairs, rounded, strict=True)]),
        "error_balance": abs(sum(np.sign(d - r) for (d, _), r in zip(pairs, rounded, strict=True))) / n,
        "rmse": math.sqrt(math.fsum(e * e for e in errors) / n),
        "small_value_error_share": share([e > small_error for e in small]),
        "max_relative": max(normal, default=0.0),
        "mean_relative": share(normal),
        "relative_error_rate": share([e > rtol for e in over_limit]),
        "absolute_error_rate": share([e > atol for e in under_limit]),
        "max_ulp": max(ulps),
        "mean_ulp": share(ulps),
        "ulp_share": share([e > ulps_counted for e in ulps]),
    }


@pytest.mark.parametrize("dtype", NUMPY)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_metrics_are_those_of_their_formulas(dtype, data):
    numbers = st.floats(-6e4, 6e4, width=32)
    reference = np.array(data.draw(st.lists(numbers, min_size=2, max_size=30)), np.float64)
    factors = np.array(data.draw(hnp.arrays(np.float64, reference.shape, elements=st.floats(0.98, 1.02))))
    device = (reference * factors).astype(NUMPY[dtype]).astype(np.float64)

    found = float_metrics(device, reference, float_format(dtype))

    for name, value in expected(device, reference, dtype).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12), name


def test_blocks_add_up_to_the_whole():
    """Results are read 65,536 elements at a time."""
    reference = np.random.default_rng(0).standard_normal(200_000)
    device = reference.astype(np.float32).astype(np.float64)
    device[[3, 150_000]] = np.nan, np.inf
    finite = np.isfinite(device)
    errors = np.abs(device - reference)[finite]
    spacings = np.spacing(np.abs(reference[finite].astype(np.float32))).astype(np.float64)

    found = float_metrics(device, reference, float_format("torch.float32"))

    assert found.rmse == pytest.approx(math.sqrt(np.mean(errors**2)))
    assert found.mean_ulp == pytest.approx(np.mean(errors / spacings), rel=1e-4)  # rounding may cross a power of two
    assert found.bitwise_error_rate == 2 / 200_000
    assert found.within_ten_thousandth == 199_998 / 200_000


@pytest.mark.parametrize(
    ("device", "reference", "cosine"),
    [
        pytest.param([5.0, 0.0], [1.0, 0.0], 1.0, id="scale-is-ignored"),
        pytest.param([3.0, 4.0], [4.0, 3.0], 24 / 25, id="angle"),
        pytest.param([0.0, 0.0], [0.0, 0.0], 1.0, id="two-zeros-agree"),
        pytest.param([1e-9, 0.0], [0.0, 0.0], math.nan, id="one-zero-has-no-direction"),
        pytest.param([1.0, math.inf], [1.0, 1.0], math.nan, id="misplaced-inf-has-no-direction"),
        pytest.param([1.0, math.inf], [1.0, math.inf], 1.0, id="inf-in-its-place-is-left-out"),
        pytest.param([1.0, math.nan], [1.0, math.nan], 1.0, id="nan-in-its-place-is-left-out"),
        pytest.param([2.0], [1.0], None, id="one-number-has-no-angle"),
    ],
)
def test_cosine(device, reference, cosine):
    found = float_metrics(np.array(device), np.array(reference), float_format("torch.float32"))

    assert found.cosine == (cosine if cosine is None else pytest.approx(cosine, nan_ok=True))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_squares_of_float64_do_not_leave_float64(scale):
    reference = np.array([3.0, 4.0]) * scale
    device = np.array([4.0, 3.0]) * scale

    found = float_metrics(device, reference, float_format("torch.float64"))

    assert found.cosine == pytest.approx(24 / 25)
    assert found.rmse == pytest.approx(scale)


def test_an_overflow_that_the_dtype_makes_of_the_reference_is_no_error():
    """70,000 is inf in float16."""
    found = float_metrics(np.array([math.inf, 1.0]), np.array([70000.0, 1.0]), float_format("torch.float16"))

    assert (found.nonfinite_error_rate, found.bitwise_error_rate, found.within_thousandth) == (0, 0, 1)


def test_misplaced_nan_and_inf_are_counted():
    device = np.array([math.nan, math.inf, -math.inf, 1.0])
    reference = np.array([math.nan, 1.0, math.inf, 1.0])

    found = float_metrics(device, reference, float_format("torch.float32"))

    assert found.nonfinite_error_rate == pytest.approx(2 / 3)
    assert found.bitwise_error_rate == 2 / 4
    assert found.within_thousandth == 2 / 4
    assert math.isnan(found.max_abs)


def test_complex_numbers_are_points_of_the_plane():
    reference = np.array([3 + 4j, 1j])
    device = np.array([3 + 4.5j, 1j])

    found = float_metrics(device, reference, float_format("torch.complex64"))

    assert found.max_abs == 0.5
    assert found.max_relative == pytest.approx(0.1)
    assert found.max_ulp == pytest.approx(0.5 / ulp_of(5.0, "torch.float32"))
    assert found.cosine == pytest.approx((9 + 18 + 1) / math.sqrt(26 * (9 + 4.5**2 + 1)))


@pytest.mark.parametrize(
    ("dtype", "subnormal"), [("torch.float16", 2.0**-20), ("torch.bfloat16", 2.0**-130), ("torch.float32", 2.0**-140)]
)
def test_ulps_of_subnormals_are_those_of_the_smallest_numbers(dtype, subnormal):
    found = float_metrics(np.array([0.0, 1.0]), np.array([subnormal, 1.0]), float_format(dtype))

    assert found.max_ulp == subnormal / ulp_of(0.0, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_the_facts_of_a_format_are_torch_s(dtype):
    facts = torch.finfo(getattr(torch, dtype))
    form = float_format(f"torch.{dtype}")

    assert (form.epsilon, form.smallest_normal, form.largest) == (facts.eps, facts.tiny, facts.max)


def test_integers_have_no_format():
    assert float_format("torch.int64") is None
    assert float_format("torch.bool") is None
