"""The rules of the standards: metrics of a result, and of a baseline's result beside it, become statuses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.outcome import Status
from torchparity.check.judging.standards import Standard

_PASSING_THOUSANDTH = 0.999
_HALF_ULP_SHARE = 0.001
_FLOAT32_ULP_SHARE, _FLOAT32_MEAN_ULP = 0.05, 64
_ENDLESS = 10000.0  # the ratio of an error to no error, as msprobe writes it
# Ratios of the tested error to the baseline's that pass, for the monitoring levels 0, 1 and 2.
_RATIO_LIMITS = {
    "small_value_error_share": (2.0, 2.0, 2.0),
    "rmse": (2.0, 1.5, 1.2),
    "max_relative": (10.0, 5.0, 2.0),
    "mean_relative": (2.0, 1.5, 1.2),
}
_BALANCE_LIMIT = 2.0  # shown, but not part of the judgement
_RATES = ("nonfinite_error_rate", "relative_error_rate", "absolute_error_rate")


@dataclass(frozen=True, slots=True)
class Judged:
    """One metric, or its ratio to the baseline's, and what that alone would be judged."""

    number: float | None
    status: Status | None


@dataclass(frozen=True, slots=True)
class StandardResult:
    """The result of one standard: of each metric it looks at, and of all together."""

    status: Status
    metrics: Mapping[str, Judged] = field(default_factory=dict)  # by the name of the field of `Metrics`


def apply_standard(
    standard: Standard, tested: Metrics, baseline: Metrics | None, *, is_half: bool, level: int
) -> StandardResult | None:
    """Return the result of a standard; None where the benchmark standard has no baseline to compare with."""
    if standard is Standard.BINARY:
        return _all_of({"bitwise_error_rate": _none_of(tested.bitwise_error_rate)})
    if standard is Standard.ABSOLUTE:
        return _all_of({name: _none_of(getattr(tested, name)) for name in _RATES})
    if standard is Standard.THOUSANDTH:
        share = tested.within_thousandth
        return _all_of({"within_thousandth": Judged(share, _status(_number(share) > _PASSING_THOUSANDTH))})
    if standard is Standard.ULP:
        return _by_ulps(tested, baseline, is_half=is_half)
    return None if baseline is None else _by_ratios(tested, baseline, level)


def ratio(tested: float | None, baseline: float | None) -> float:
    """Return how many times the baseline's error the tested one is; 1 for two without error."""
    left, right = _number(tested), _number(baseline)
    if math.isnan(left) or math.isnan(right):
        return 1.0 if math.isnan(left) and math.isnan(right) else _ENDLESS
    if left == right:
        return 1.0
    return _ENDLESS if right == 0 else min(left / right, _ENDLESS)


def _by_ulps(tested: Metrics, baseline: Metrics | None, *, is_half: bool) -> StandardResult:
    share, mean = _number(tested.ulp_share), _number(tested.mean_ulp)
    passes = share < _HALF_ULP_SHARE if is_half else mean < _FLOAT32_MEAN_ULP or share < _FLOAT32_ULP_SHARE
    beside = None if baseline is None else ratio(tested.ulp_share, baseline.ulp_share)
    passes = passes or (baseline is not None and share < _number(baseline.ulp_share))
    metrics = {
        "mean_ulp": Judged(tested.mean_ulp, None),
        "ulp_share": Judged(tested.ulp_share, None),
        "ulp_share_ratio": Judged(beside, _status(passes)),
    }
    if tested.nonfinite_error_rate:
        return StandardResult(Status.ERROR, metrics)
    return StandardResult(_status(passes), metrics)


def _by_ratios(tested: Metrics, baseline: Metrics, level: int) -> StandardResult:
    metrics = {}
    for name, limits in _RATIO_LIMITS.items():
        times = ratio(getattr(tested, name), getattr(baseline, name))
        metrics[name] = Judged(times, _status(times <= limits[level]))
    wrong = any(judged.status is Status.ERROR for judged in metrics.values()) or bool(tested.nonfinite_error_rate)
    balance = ratio(tested.error_balance, baseline.error_balance)
    metrics["error_balance"] = Judged(balance, _status(balance <= _BALANCE_LIMIT))
    return StandardResult(_status(not wrong), metrics)


def _all_of(metrics: dict[str, Judged]) -> StandardResult:
    return StandardResult(_status(all(judged.status is Status.PASS for judged in metrics.values())), metrics)


def _none_of(rate: float | None) -> Judged:
    return Judged(rate, _status(rate == 0))


def _status(passes: bool) -> Status:
    return Status.PASS if passes else Status.ERROR


def _number(value: float | None) -> float:
    return math.nan if value is None else value
