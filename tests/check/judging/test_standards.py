"""The standards: which API falls under which, and what each makes of metrics."""

from __future__ import annotations

import pytest

from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.standard_rules import apply_standard, ratio
from torchparity.check.judging.standards import Standard, level_of, standard_of


@pytest.mark.parametrize(
    ("api", "standard"),
    [
        ("Functional.relu", Standard.BINARY),
        ("Tensor.relu_", Standard.BINARY),
        ("Tensor.__getitem__", Standard.BINARY),
        ("Tensor.__add__", Standard.ABSOLUTE),
        ("Tensor.__iadd__", Standard.ABSOLUTE),
        ("Torch.multiply", Standard.ABSOLUTE),
        ("Tensor.__rtruediv__", Standard.ABSOLUTE),
        ("Tensor.__matmul__", Standard.ULP),
        ("Functional.linear", Standard.ULP),
        ("Torch.linalg.multi_dot", Standard.ULP),
        ("Functional.conv2d", Standard.THOUSANDTH),
        ("Functional.softmax", Standard.BENCHMARK),
        ("NPU.npu_swiglu", Standard.BENCHMARK),
    ],
)
def test_every_spelling_of_an_api_has_one_standard(api, standard):
    assert standard_of(api) is standard


def test_levels_say_how_closely_an_api_is_monitored():
    assert [level_of(api) for api in ("Torch.exp", "Functional.embedding", "Functional.gelu")] == [0, 1, 2]


def status(standard, tested, baseline=None, *, is_half=False, level=0):
    result = apply_standard(standard, tested, baseline, is_half=is_half, level=level)
    return None if result is None else str(result.status)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, "pass"), (1e-9, "error")])
def test_binary_consistency_allows_no_bit(rate, expected):
    assert status(Standard.BINARY, Metrics(bitwise_error_rate=rate)) == expected


@pytest.mark.parametrize(
    ("rates", "expected"),
    [((0.0, 0.0, 0.0), "pass"), ((0.1, 0.0, 0.0), "error"), ((0.0, 0.1, 0.0), "error"), ((0.0, 0.0, 0.1), "error")],
)
def test_absolute_threshold_allows_none_of_three_errors(rates, expected):
    names = ("nonfinite_error_rate", "relative_error_rate", "absolute_error_rate")

    assert status(Standard.ABSOLUTE, Metrics(**dict(zip(names, rates, strict=True)))) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.9991, "pass"), (0.999, "error")])
def test_thousandth(share, expected):
    assert status(Standard.THOUSANDTH, Metrics(within_thousandth=share)) == expected


@pytest.mark.parametrize(
    ("share", "mean", "is_half", "of_baseline", "expected"),
    [
        pytest.param(0.0009, 9.0, True, None, "pass", id="half-below-a-thousandth"),
        pytest.param(0.001, 0.1, True, None, "error", id="half-at-a-thousandth"),
        pytest.param(0.3, 0.1, True, 0.4, "pass", id="half-below-the-baseline"),
        pytest.param(0.9, 63.0, False, None, "pass", id="float32-by-its-mean"),
        pytest.param(0.04, 1e6, False, None, "pass", id="float32-by-its-share"),
        pytest.param(0.05, 64.0, False, None, "error", id="float32-neither"),
        pytest.param(0.5, 1e6, False, 0.6, "pass", id="float32-below-the-baseline"),
    ],
)
def test_ulp(share, mean, is_half, of_baseline, expected):
    baseline = None if of_baseline is None else Metrics(ulp_share=of_baseline)

    assert status(Standard.ULP, Metrics(ulp_share=share, mean_ulp=mean), baseline, is_half=is_half) == expected


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("small_value_error_share", (2, 2, 2)),
        ("rmse", (2, 1.5, 1.2)),
        ("max_relative", (10, 5, 2)),
        ("mean_relative", (2, 1.5, 1.2)),
    ],
)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_benchmark_limits_each_ratio_by_level(field, limits, level):
    of_baseline = dict.fromkeys(("small_value_error_share", "rmse", "max_relative", "mean_relative"), 0.5)
    within, beyond = limits[level] * 0.5, limits[level] * 0.5001

    assert status(
        Standard.BENCHMARK, Metrics(**of_baseline | {field: within}), Metrics(**of_baseline), level=level
    ) == ("pass")
    assert status(
        Standard.BENCHMARK, Metrics(**of_baseline | {field: beyond}), Metrics(**of_baseline), level=level
    ) == ("error")


def test_benchmark_shows_the_balance_but_does_not_judge_by_it():
    even = dict.fromkeys(("small_value_error_share", "rmse", "max_relative", "mean_relative"), 0.5)

    result = apply_standard(
        Standard.BENCHMARK,
        Metrics(**even, error_balance=0.9),
        Metrics(**even, error_balance=0.1),
        is_half=False,
        level=0,
    )

    assert str(result.metrics["error_balance"].status) == "error"
    assert str(result.status) == "pass"


def test_benchmark_needs_a_baseline():
    assert status(Standard.BENCHMARK, Metrics(rmse=1.0)) is None


def test_ratios_of_nothing():
    nan = float("nan")

    assert [ratio(0, 0), ratio(2, 0), ratio(1, 4), ratio(nan, nan), ratio(nan, 1)] == [1, 10000, 0.25, 1, 10000]
