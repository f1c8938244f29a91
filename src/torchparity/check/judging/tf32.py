"""Telling TF32: its errors are known, since they are those of factors with 10 bits."""

from __future__ import annotations

from torchparity.check.judging.explanation import Explanation
from torchparity.check.judging.float_formats import FloatFormat, float_format
from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.metrics import float_metrics
from torchparity.check.judging.outcome import Outcome
from torchparity.check.judging.standards import hides_products, is_recurrent, may_use_tf32
from torchparity.check.judging.values import NotComparableError, Values, values_of

_LEFT = 0.7  # of the RMSE, once the errors of TF32 are taken away; those of another fault are not taken away
_EXCESS = 2.0**9  # no single element stands out
# Multiples of the RMSE of float32 that inputs of 10 bits lead to; of 7 bits it is 2**14. In a recurrence the steps
# of float32 have errors of their own, so that the multiple is smaller.
_SIZE, _SIZE_RECURRENT = (2.0**8, 2.0**13), (2.0**6, 2.0**13)


def can_be_tf32(api: str, form: FloatFormat) -> bool:
    """Tell whether a result may have been computed in TF32."""
    return form.dtype == "torch.float32" and may_use_tf32(api)


def is_tf32(outcome: Outcome, device: Values, metrics: Metrics, multiple: float, explanation: Explanation) -> bool:
    """Tell whether errors are those of TF32; `multiple` is that of the RMSE to float32's own.

    Where the products of an API cannot be seen, the size of its errors must do. So it must in a recurrence on a device
    that is set to use TF32 there: cuDNN uses it for some of the products and not for others.
    """
    if explanation.excess > _EXCESS or metrics.nonfinite_error_rate:
        return False
    least, most = _SIZE_RECURRENT if is_recurrent(outcome.api) else _SIZE
    has_its_size = least <= multiple <= most
    if hides_products(outcome.api):
        return has_its_size
    if any(_is_explained(device, result, metrics) for result in _variants(outcome)):
        return True
    return has_its_size and outcome.recurs_in_tf32 and is_recurrent(outcome.api)


def _variants(outcome: Outcome) -> list[Values]:
    found: list[Values] = []
    while outcome.tf32 is not None and (result := outcome.tf32(len(found))) is not None:
        try:
            found.append(values_of(result))
        except NotComparableError:
            break
    return found


def _is_explained(device: Values, in_tf32: Values, metrics: Metrics) -> bool:
    form = float_format(device.dtype)
    if form is None or device.shape != in_tf32.shape or device.kind != in_tf32.kind:
        return False
    left = float_metrics(device, in_tf32, form)
    return not left.nonfinite_error_rate and (left.rmse or 0.0) <= _LEFT * (metrics.rmse or 0.0)
