"""The judgement of floating-point numbers: the pass rule decides, and rounding may excuse what the rule fails."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from torchparity.check.judging.bias import certain_bias, is_beyond_rounding, is_explained
from torchparity.check.judging.explanation import Explanation, Profile, is_within_one_ulp
from torchparity.check.judging.float_formats import FloatFormat
from torchparity.check.judging.judgement import Judgement, Metrics
from torchparity.check.judging.limits import has_standard
from torchparity.check.judging.metrics import differences, float_metrics, is_same
from torchparity.check.judging.outcome import Outcome, Status
from torchparity.check.judging.pass_rule import broken_rules, has_outliers
from torchparity.check.judging.standard_rules import apply_standard
from torchparity.check.judging.standards import level_of, standard_of
from torchparity.check.judging.tf32 import can_be_tf32, is_tf32
from torchparity.check.judging.values import Values
from torchparity.check.judging.wording import (
    about_bias,
    about_explained,
    about_failure,
    about_moved,
    about_outliers,
    about_tf32,
    about_unusual,
)
from torchparity.check.judging.yardsticks import of_same_kind, yardsticks

_SAMPLES_OF_BIAS = 8
_WARNED_UP_TO = 2.0  # times what rounding explains; beyond, a result is wrong
_QUIET_UP_TO = 4.0  # where the pass rule holds for every element
_FEW_ULPS = 16.0  # that need no explanation where the pass rule holds
_USUAL_UP_TO = 3.0  # times the RMSE of half precision's rounding
_FEWEST_USUAL = 64  # elements whose RMSE tells something


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: Status
    message: str
    rounded: Values | None = None  # the last result with rounding that the error was held against: emulated, if any is


@dataclass(frozen=True, slots=True)
class FloatResult:
    """One result of floating-point or complex numbers."""

    outcome: Outcome
    device: Values
    reference: Values
    form: FloatFormat

    def judgement(self) -> Judgement:
        """Return the judgement of this result."""
        metrics = self._metrics_of(self.device)
        verdict = self._unless_biased(self._verdict(metrics))
        yardstick = of_same_kind(self.outcome.same_dtype, self.device) or verdict.rounded
        of_cpu = None if yardstick is None else self._metrics_beside(metrics, yardstick)
        standard, standard_status = self._standard(metrics, of_cpu)
        return Judgement(
            name=self.outcome.name,
            status=verdict.status,
            message=verdict.message,
            reference_dtype=self.reference.dtype,
            device_dtype=self.device.dtype,
            shape=self.device.shape,
            metrics=metrics,
            standard=standard,
            standard_status=standard_status,
            cpu_max_ulp=None if of_cpu is None else of_cpu.max_ulp,
            multiple=None if of_cpu is None else multiple(metrics, of_cpu),
        )

    def _metrics_of(self, values: Values) -> Metrics:
        return float_metrics(values, self.reference, self.form)

    def _metrics_beside(self, metrics: Metrics, yardstick: Values) -> Metrics:
        is_same_result = np.array_equal(yardstick.stored, self.device.stored)
        return metrics if is_same_result else self._metrics_of(yardstick)

    def _verdict(self, metrics: Metrics) -> _Verdict:
        lacking = broken_rules(metrics, self.form)
        if self.outcome.is_exact:
            return self._exact_verdict(lacking)
        has_single = has_outliers(metrics, self.form)
        if not lacking and not has_single and (self.form.is_half or (metrics.max_ulp or 0.0) <= _FEW_ULPS):
            return _Verdict(Status.PASS, "")
        if lacking and is_within_one_ulp(metrics):
            return _Verdict(Status.PASS, about_explained(metrics, self.form))
        explanation, samples = self._explain()
        rounded = samples[-1] if samples else None
        if explanation.excess <= 1:
            return self._unless_unusual(metrics, samples, about_explained(metrics, self.form) if lacking else "")
        if not lacking:
            alone = explanation.samples and explanation.excess > (_WARNED_UP_TO if has_single else _QUIET_UP_TO)
            said = about_outliers(explanation, self.device, self.reference, self.form) if alone else ""
            return _Verdict(Status.WARNING if alone else Status.PASS, said, rounded)
        said = about_failure(lacking, explanation, self.device, self.reference, self.form)
        if samples and can_be_tf32(self.outcome.api, self.form):
            times = self._times_the_usual(metrics, samples)
            if is_tf32(self.outcome, self.device, metrics, times, explanation):
                return _Verdict(Status.WARNING, said + about_tf32(times), rounded)
        return _Verdict(Status.ERROR if explanation.excess > _WARNED_UP_TO else Status.WARNING, said, rounded)

    def _exact_verdict(self, lacking: list[str]) -> _Verdict:
        """Return the verdict about numbers that were moved or selected: each is the reference's, rounded if need be."""
        differs = differences(self.device, self.reference, self.form)
        rounded = None
        if differs.any():
            for rounded in yardsticks(self.outcome, self.device):
                differs &= ~is_same(self.device.numbers(), rounded.numbers())
        if not differs.any():
            return _Verdict(Status.PASS, "", rounded)
        said = about_moved(differs, self.device, self.reference)
        return _Verdict(Status.ERROR if lacking else Status.WARNING, said, rounded)

    def _unless_unusual(self, metrics: Metrics, samples: list[Values], said: str) -> _Verdict:
        """Return a warning in place of a pass where half precision's errors are larger together than rounding's."""
        rounded = samples[-1] if samples else None
        if samples and self.form.is_half and self.device.size >= _FEWEST_USUAL:
            times = self._times_the_usual(metrics, samples)
            if times > _USUAL_UP_TO:
                return _Verdict(Status.WARNING, about_unusual(times, self.form), rounded)
        return _Verdict(Status.PASS, said, rounded)

    def _times_the_usual(self, metrics: Metrics, samples: list[Values]) -> float:
        """Return the RMSE as a multiple of that of all results with rounding together."""
        squares = [(self._metrics_of(sample).rmse or 0.0) ** 2 for sample in samples]
        return _times(metrics.rmse, (sum(squares) / len(squares)) ** 0.5)

    def _unless_biased(self, verdict: _Verdict) -> _Verdict:
        """Return a worse verdict where the errors go one way, and those of rounding do not."""
        is_open = verdict.status is not Status.ERROR
        bias = certain_bias(self.device, self.reference, self.form) if is_open else 0.0
        status = Status.ERROR if is_beyond_rounding(bias, self.form) else Status.WARNING
        if not bias or status is verdict.status:
            return verdict
        for sample in islice(yardsticks(self.outcome, self.device), _SAMPLES_OF_BIAS):
            if is_explained(bias, sample, self.reference, self.form):
                return verdict
        said = f"{verdict.message} " if verdict.status is Status.WARNING else ""
        return _Verdict(status, said + about_bias(bias), verdict.rounded)

    def _explain(self) -> tuple[Explanation, list[Values]]:
        """Return how far the errors go beyond rounding; ask for results with rounding until they do not."""
        profile = Profile(self.outcome.api, self.device, self.reference, self.form)
        explanation, samples = profile.explain(), list[Values]()
        if explanation.excess <= 1:
            return explanation, samples
        for sample in yardsticks(self.outcome, self.device):
            samples.append(sample)
            profile.learn(sample)
            explanation = profile.explain()
            if explanation.excess <= 1:
                break
        return explanation, samples

    def _standard(self, metrics: Metrics, of_cpu: Metrics | None) -> tuple[str, Status | None]:
        if not has_standard(self.form.dtype):
            return "", None
        standard = standard_of(self.outcome.api)
        level = level_of(self.outcome.api)
        result = apply_standard(standard, metrics, of_cpu, is_half=self.form.is_half, level=level)
        return str(standard), None if result is None else result.status


def multiple(metrics: Metrics, of_cpu: Metrics) -> float:
    """Return the error as a multiple of the CPU's: the larger of the ratios of RMSE and of mean ULP error."""
    return max(_times(metrics.rmse, of_cpu.rmse), _times(metrics.mean_ulp, of_cpu.mean_ulp))


def _times(tested: float | None, own: float | None) -> float:
    if not tested:
        return 0.0 if own else 1.0
    return tested / own if own else float("inf")
