"""Sentences that say why a result has its status."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from torchparity.check.judging.explanation import Explanation
from torchparity.check.judging.float_formats import FloatFormat
from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.values import Values


def about_exact(wrong: int, excused: int, device: Values, reference: Values) -> str:
    """Say how many integers or booleans differ, and how many of them rounding alone changes."""
    if not wrong and not excused:
        return ""
    if not wrong:
        return (
            f"{excused} of {device.size} differ, each of which rounding alone changes too, or chooses an equal value."
        )
    first = int(np.flatnonzero(device.stored != reference.stored)[0])
    found = f"{device.stored[first]} instead of {reference.stored[first]}"
    if not device.shape:
        return f"It is {found}."
    return f"{wrong + excused} of {device.size} differ, first {_place(first, device.shape)}: {found}."


def about_explained(metrics: Metrics, form: FloatFormat) -> str:
    """Say that errors beyond the pass rule are normal for the dtype."""
    return f"Normal for {form.dtype}: no error is beyond what its rounding explains; the largest is {_ulps(metrics)}."


def about_outliers(explanation: Explanation, device: Values, reference: Values, form: FloatFormat) -> str:
    """Say that the result passes, but elements of it are wrong."""
    return (
        f"It passes, but {explanation.beyond} of {device.size} elements are beyond what rounding explains: "
        f"{_worst(explanation, device, reference, form)}."
    )


def about_failure(
    lacking: list[str], explanation: Explanation, device: Values, reference: Values, form: FloatFormat
) -> str:
    """Say which rules a result breaks, where it is worst, and how far beyond rounding."""
    sentence = f"{' and '.join(lacking)}: {_worst(explanation, device, reference, form)}."
    return sentence[:1].upper() + sentence[1:]


def about_bias(bias: float) -> str:
    """Say that errors that are small have one direction."""
    size = "large" if bias > 0 else "small"
    return f"All elements together are {abs(bias):.2%} too {size}, where rounding has no direction."


def about_unusual(multiple: float, form: FloatFormat) -> str:
    """Say that errors that are small each are large together."""
    rounding = f"{form.dtype}'s rounding"
    return f"No element is beyond what rounding explains, but the RMSE is {multiple:.3g} times that of {rounding}."


def about_moved(differs: npt.NDArray[np.bool_], device: Values, reference: Values) -> str:
    """Say how many numbers differ of those that were only moved or selected."""
    index = int(np.flatnonzero(differs)[0])
    here, right = (values.numbers(slice(index, index + 1))[0] for values in (device, reference))
    return (
        f"It makes no new numbers, and {np.count_nonzero(differs)} of {device.size} differ, "
        f"first {_place(index, device.shape)}: {here:.6g} instead of {right:.6g}."
    )


def about_tf32(multiple: float) -> str:
    """Say that an error is as large as TF32 makes it."""
    return f" An error {multiple:.0f} times float32's own is what TF32 makes, with 10 bits of each input."


def _worst(explanation: Explanation, device: Values, reference: Values, form: FloatFormat) -> str:
    index = explanation.worst
    here, right = (values.numbers(slice(index, index + 1))[0] for values in (device, reference))
    where = _place(index, device.shape)
    excess = f", {explanation.excess:.3g} times what rounding explains" if explanation.samples else ""
    if not (np.isfinite(here) and np.isfinite(right)):
        return f"{where} is {here:.6g} instead of {right:.6g}"
    off = abs(here - right) / float(form.spacing(np.abs(np.array([right])))[0])
    return f"{where} is {here:.6g} instead of {right:.6g}, off by {off:.3g} ULP{excess}"


def _ulps(metrics: Metrics) -> str:
    return f"{metrics.max_ulp:.3g} ULP"


def _place(index: int, shape: tuple[int, ...]) -> str:
    if not shape:
        return "it"
    return f"element {tuple(int(each) for each in np.unravel_index(index, shape))}"
