"""The judgement of one result, by the kind of its values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from torchparity.check.judging.explanation import unstable
from torchparity.check.judging.float_formats import float_format
from torchparity.check.judging.float_results import FloatResult
from torchparity.check.judging.free_directions import aligned, unless_free
from torchparity.check.judging.judgement import Judgement, skipped
from torchparity.check.judging.metrics import exact_metrics, is_same
from torchparity.check.judging.outcome import Outcome, Status
from torchparity.check.judging.standards import Standard
from torchparity.check.judging.values import NotComparableError, Values, values_of
from torchparity.check.judging.wording import about_exact
from torchparity.check.judging.yardsticks import of_same_shape, yardsticks


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
    if device.kind != reference.kind or (device.kind == "exact" and device.dtype != reference.dtype):
        said = f"The device gave {device.dtype}, the reference {reference.dtype}."
        return _wrong(outcome, said, device, reference)
    form = float_format(device.dtype)
    if device.kind == "exact" or form is None:
        return _judge_exact(outcome, device, reference)
    return FloatResult(outcome, device, reference, form).judgement()


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
            open_ones = unstable(reference, list(yardsticks(outcome, device)))
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
        of_same_shape(outcome.pick(outcome.device), device),
        of_same_shape(outcome.pick(outcome.reference), device),
    )
    return None if chosen[0] is None or chosen[1] is None else is_same(chosen[0].numbers(), chosen[1].numbers())
