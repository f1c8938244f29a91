"""The judgement of one result: the pass rule decides, and rounding may excuse what the rule fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from torchparity.check.judging.bias import bias_of, is_explained
from torchparity.check.judging.explanation import (
    Explanation,
    Profile,
    can_be_tf32,
    is_like_tf32,
    is_within_one_ulp,
    sample_numbers,
    unstable,
)
from torchparity.check.judging.float_formats import FloatFormat, float_format
from torchparity.check.judging.free_directions import aligned, unless_free
from torchparity.check.judging.judgement import Judgement, Metrics, skipped
from torchparity.check.judging.limits import has_standard
from torchparity.check.judging.metrics import exact_metrics, float_metrics, is_same
from torchparity.check.judging.outcome import Outcome, Status
from torchparity.check.judging.pass_rule import broken_rules, has_outliers
from torchparity.check.judging.standard_rules import apply_standard
from torchparity.check.judging.standards import Standard, level_of, standard_of
from torchparity.check.judging.values import NotComparableError, Values, values_of
from torchparity.check.judging.wording import (
    about_bias,
    about_exact,
    about_explained,
    about_failure,
    about_outliers,
    about_tf32,
)

_SAMPLES_OF_BIAS = 3
_WARNED_UP_TO = 2.0  # times what rounding explains; beyond, a result is wrong


def judge(outcome: Outcome) -> Judgement:
    """Return the judgement of one result: its metrics, its standard, its status and why."""
    return unless_free(outcome, _judge(aligned(outcome)))


def _judge(outcome: Outcome) -> Judgement:
    if outcome.reference is None:
        return skipped(outcome.name, "The reference is None, so there is nothing to compare with.")
    if outcome.device is None:
        return _wrong(outcome, "The device gave None where the reference gave a result.")
    try:
        device, reference = values_of(outcome.device), values_of(outcome.reference)
    except NotComparableError as reason:
        return _judge_objects(outcome, str(reason))
    if device.shape != reference.shape:
        said = f"The device gave the shape {device.shape}, the reference {reference.shape}."
        return _wrong(outcome, said, device, reference)
    if device.kind != reference.kind:
        said = f"The device gave {device.dtype}, the reference {reference.dtype}."
        return _wrong(outcome, said, device, reference)
    form = float_format(device.dtype)
    if device.kind == "exact" or form is None:
        return _judge_exact(outcome, device, reference)
    return _FloatCase(outcome, device, reference, form).judgement()


def _judge_objects(outcome: Outcome, reason: str) -> Judgement:
    """Judge what is no number, a text or a dtype, by equality; skip tensors that cannot be read."""
    if hasattr(outcome.device, "layout") or hasattr(outcome.reference, "layout"):
        return skipped(outcome.name, f"The values cannot be compared: {reason}.")
    if outcome.device == outcome.reference:
        return Judgement(name=outcome.name, status=Status.PASS)
    return _wrong(outcome, f"The device gave {outcome.device!r:.80}, the reference {outcome.reference!r:.80}.")


def _wrong(outcome: Outcome, said: str, device: Values | None = None, reference: Values | None = None) -> Judgement:
    return Judgement(
        name=outcome.name,
        status=Status.ERROR,
        message=said,
        device_dtype=device.dtype if device else "",
        reference_dtype=reference.dtype if reference else "",
        shape=device.shape if device else None,
    )


def _judge_exact(outcome: Outcome, device: Values, reference: Values) -> Judgement:
    metrics = exact_metrics(device, reference)
    differs = device.stored != reference.stored
    excused = 0
    if metrics.bitwise_error_rate:
        open_ones = _ties(outcome, device)
        if open_ones is None or np.any(differs & ~open_ones):
            open_ones = unstable(reference, list(_yardsticks(outcome, device)))
        excused = int(np.count_nonzero(differs & open_ones))
    wrong = int(np.count_nonzero(differs)) - excused
    status = Status.ERROR if wrong else Status.PASS
    return Judgement(
        name=outcome.name,
        status=status,
        message=about_exact(wrong, excused, device, reference),
        reference_dtype=reference.dtype,
        device_dtype=device.dtype,
        shape=device.shape,
        metrics=metrics,
        standard=str(Standard.BINARY),
        standard_status=Status.ERROR if metrics.bitwise_error_rate else Status.PASS,
    )


def _ties(outcome: Outcome, device: Values) -> npt.NDArray[np.bool_] | None:
    """Tell which indices choose a value equal to that of the reference; None where indices choose nothing."""
    if outcome.pick is None:
        return None
    chosen = (
        _of_same_shape(outcome.pick(outcome.device), device),
        _of_same_shape(outcome.pick(outcome.reference), device),
    )
    return None if chosen[0] is None or chosen[1] is None else is_same(chosen[0].numbers(), chosen[1].numbers())


def _yardsticks(outcome: Outcome, device: Values) -> Iterator[Values]:
    """Yield results with rounding as they are needed: the CPU's own, then the emulated ones."""
    own = _of_same_kind(outcome.same_dtype, device)
    if own is not None:
        yield own
    for number in sample_numbers(device.size) if outcome.emulate is not None else ():
        sample = _of_same_kind(outcome.emulate(number), device) if outcome.emulate else None
        if sample is None:
            return
        yield sample


def _of_same_kind(result: Any, device: Values) -> Values | None:
    values = _of_same_shape(result, device)
    return values if values is not None and values.kind == device.kind else None


def _of_same_shape(result: Any, device: Values) -> Values | None:
    if result is None:
        return None
    try:
        values = values_of(result)
    except NotComparableError:
        return None
    return values if values.shape == device.shape else None


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: Status
    message: str
    rounded: Values | None = None  # the last result with rounding that the error was held against: emulated, if any is


@dataclass(frozen=True, slots=True)
class _FloatCase:
    """One result of floating-point or complex numbers."""

    outcome: Outcome
    device: Values
    reference: Values
    form: FloatFormat

    def judgement(self) -> Judgement:
        """Return the judgement of this result."""
        metrics = self._metrics_of(self.device)
        verdict = self._unless_biased(self._verdict(metrics))
        yardstick = _of_same_kind(self.outcome.same_dtype, self.device) or verdict.rounded
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
        if not lacking and not has_outliers(metrics, self.form):
            return _Verdict(Status.PASS, "")
        if lacking and is_within_one_ulp(metrics):
            return _Verdict(Status.PASS, about_explained(metrics, self.form))
        explanation, samples = self._explain()
        rounded = samples[-1] if samples else None
        if explanation.excess <= 1:
            return _Verdict(Status.PASS, about_explained(metrics, self.form) if lacking else "", rounded)
        if not lacking:
            alone = explanation.samples and explanation.excess > _WARNED_UP_TO
            said = about_outliers(explanation, self.device, self.reference, self.form) if alone else ""
            return _Verdict(Status.WARNING if alone else Status.PASS, said, rounded)
        said = about_failure(lacking, explanation, self.device, self.reference, self.form)
        if samples and can_be_tf32(self.outcome.api, self.form):
            times = self._times_the_usual(metrics, samples)
            if is_like_tf32(self.outcome.api, times, explanation):
                return _Verdict(Status.WARNING, said + about_tf32(times), rounded)
        return _Verdict(Status.ERROR if explanation.excess > _WARNED_UP_TO else Status.WARNING, said, rounded)

    def _times_the_usual(self, metrics: Metrics, samples: list[Values]) -> float:
        """Return the RMSE as a multiple of that of all results with rounding together."""
        squares = [(self._metrics_of(sample).rmse or 0.0) ** 2 for sample in samples]
        return _times(metrics.rmse, (sum(squares) / len(squares)) ** 0.5)

    def _unless_biased(self, verdict: _Verdict) -> _Verdict:
        """Return a warning in place of a pass where the errors go one way, and those of rounding do not."""
        bias = self._bias_of(self.device) if verdict.status is Status.PASS else 0.0
        if not bias:
            return verdict
        for sample in islice(_yardsticks(self.outcome, self.device), _SAMPLES_OF_BIAS):
            if is_explained(bias, self._bias_of(sample)):
                return verdict
        return _Verdict(Status.WARNING, about_bias(bias), verdict.rounded)

    def _bias_of(self, values: Values) -> float:
        return bias_of(values, self.reference, self.form)

    def _explain(self) -> tuple[Explanation, list[Values]]:
        """Return how far the errors go beyond rounding; ask for results with rounding until they do not."""
        profile = Profile(self.outcome.api, self.device, self.reference, self.form)
        explanation, samples = profile.explain(), list[Values]()
        if explanation.excess <= 1:
            return explanation, samples
        for sample in _yardsticks(self.outcome, self.device):
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
