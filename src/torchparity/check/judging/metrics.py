"""Metrics of a result against the reference, in float64, block by block; docs/check-standards.md has the formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchparity.check.judging.float_formats import FloatFormat, Floats
from torchparity.check.judging.judgement import Metrics
from torchparity.check.judging.limits import Limits, limits_of
from torchparity.check.judging.values import BLOCK, Numbers, Values, blocks

_SAFE_SQUARES = (1e-120, 1e150)  # magnitudes whose squares float64 can add


@dataclass(slots=True)
class _Tally:
    """Sums, counts and maxima over all blocks."""

    count: int = 0
    finite: int = 0
    nonfinite_wrong: int = 0
    bits_wrong: int = 0
    larger: int = 0
    smaller: int = 0
    within: tuple[int, int, int] = (0, 0, 0)
    dot: float = 0.0
    device_squares: float = 0.0
    reference_squares: float = 0.0
    error_squares: float = 0.0
    max_abs: float = 0.0
    normal: int = 0
    max_relative: float = 0.0
    sum_relative: float = 0.0
    small: int = 0
    small_wrong: int = 0
    threshold_normal: int = 0
    relative_wrong: int = 0
    absolute_wrong: int = 0
    max_ulp: float = 0.0
    sum_ulp: float = 0.0
    above_ulp: int = 0


def float_metrics(device: Values, reference: Values, form: FloatFormat) -> Metrics:
    """Return the metrics of two results of one shape, of real or complex numbers; `form` is the tested format."""
    tally = _Tally()
    scale = _scale(device, reference) if form.dtype == "torch.float64" else 1.0
    for _, tested, right in blocks(device, reference):
        if device.size <= BLOCK and np.array_equal(tested, right):
            break
        _add_block(tally, tested, right, form, scale)
    return _metrics(tally, scale) if tally.count else _metrics_of_equal(device)


def exact_metrics(device: Values, reference: Values) -> Metrics:
    """Return the metrics of two results of integers or booleans: how many of them differ."""
    wrong = _count(device.stored != reference.stored)
    return Metrics(bitwise_error_rate=wrong / device.size if device.size else 0.0)


def is_same(left: Numbers, right: Numbers) -> npt.NDArray[np.bool_]:
    """Tell for each pair whether it is equal; nan equals nan."""
    same: npt.NDArray[np.bool_] = (left == right) | ((left != left) & (right != right))
    return same


def differences(device: Values, reference: Values, form: FloatFormat) -> npt.NDArray[np.bool_]:
    """Tell which elements are not the reference's, rounded; a subnormal may be flushed to zero."""
    tested, right = device.numbers(), rounded_to(reference.numbers(), form)
    is_flushed = (tested == 0) & (magnitudes(right) < form.smallest_normal)
    different: npt.NDArray[np.bool_] = ~is_same(tested, right) & ~is_flushed
    return different


def rounded_to(numbers: Numbers, form: FloatFormat) -> Numbers:
    """Return float64 or complex128 numbers rounded to a format."""
    if numbers.dtype.kind != "c":
        return form.rounded(numbers)
    parts: Numbers = form.rounded(numbers.view(np.float64)).view(np.complex128)
    return parts


def magnitudes(numbers: Numbers) -> Floats:
    """Return the absolute values; a complex number is a point of the plane."""
    sizes: Floats = np.abs(numbers)
    return sizes


def _add_block(tally: _Tally, device: Numbers, reference: Numbers, form: FloatFormat, scale: float) -> None:
    rounded = rounded_to(reference, form)
    tally.count += device.size
    with np.errstate(invalid="ignore", over="ignore"):
        error = magnitudes(device - reference)
    largest = float(error.max())
    if not math.isfinite(largest):
        finite = np.isfinite(error)
        wrong = _count(~is_same(device, rounded) & ~finite)
        tally.bits_wrong += wrong
        tally.nonfinite_wrong += wrong
        device, reference, rounded, error = device[finite], reference[finite], rounded[finite], error[finite]
        largest = float(error.max(initial=0.0))
    if not device.size:
        return
    size = magnitudes(reference)
    tally.finite += device.size
    tally.max_abs = max(tally.max_abs, largest)
    tally.bits_wrong += _count(device != rounded)
    _add_signs(tally, device, rounded)
    _add_squares(tally, device, reference, error, scale)
    relative = error / np.where(size == 0, form.epsilon, size)
    _add_relative(tally, error, size, relative, limits_of(form.dtype))
    ulps = error / form.spacing(size)
    tally.max_ulp = max(tally.max_ulp, float(ulps.max()))
    tally.sum_ulp += float(ulps.sum())
    tally.above_ulp += _count(ulps > limits_of(form.dtype).ulp)


def _add_signs(tally: _Tally, device: Numbers, rounded: Numbers) -> None:
    if device.dtype.kind == "c":
        device, rounded = magnitudes(device), magnitudes(rounded)
    tally.larger += _count(device > rounded)
    tally.smaller += _count(device < rounded)


def _add_squares(tally: _Tally, device: Numbers, reference: Numbers, error: Floats, scale: float) -> None:
    if scale != 1.0:
        device, reference, error = device * scale, reference * scale, error * scale
    # Not np.dot, which wakes threads for a block.
    tally.dot += float((device * np.conj(reference)).sum().real)
    tally.device_squares += _squares(device)
    tally.reference_squares += _squares(reference)
    tally.error_squares += _squares(error)


def _squares(numbers: Numbers) -> float:
    return float(np.square(magnitudes(numbers) if numbers.dtype.kind == "c" else numbers).sum())


def _add_relative(tally: _Tally, error: Floats, size: Floats, relative: Floats, limits: Limits) -> None:
    hundredth, thousandth, ten_thousandth = tally.within
    tally.within = (
        hundredth + _count(relative < 1e-2),
        thousandth + _count(relative < 1e-3),
        ten_thousandth + _count(relative < 1e-4),
    )
    small = size < limits.benchmark_small
    tally.small += _count(small)
    tally.small_wrong += _count(small & (error > limits.benchmark_small_error))
    of_normal = relative[~small]
    if of_normal.size:
        tally.normal += of_normal.size
        tally.max_relative = max(tally.max_relative, float(of_normal.max()))
        tally.sum_relative += float(of_normal.sum())
    small = size < limits.small
    tally.threshold_normal += small.size - _count(small)
    tally.absolute_wrong += _count(small & (error > limits.small_error))
    tally.relative_wrong += _count(~small & (relative > limits.relative))


def _metrics(tally: _Tally, scale: float) -> Metrics:
    right_nonfinite = tally.count - tally.finite - tally.nonfinite_wrong
    hundredth, thousandth, ten_thousandth = ((right_nonfinite + count) / tally.count for count in tally.within)
    return Metrics(
        cosine=_cosine(tally),
        max_abs=math.nan if tally.nonfinite_wrong else tally.max_abs,
        within_hundredth=hundredth,
        within_thousandth=thousandth,
        within_ten_thousandth=ten_thousandth,
        bitwise_error_rate=tally.bits_wrong / tally.count,
        error_balance=abs(tally.larger - tally.smaller) / tally.count,
        rmse=math.sqrt(_share(tally.error_squares, tally.finite)) / scale,
        small_value_error_share=_share(tally.small_wrong, tally.small),
        max_relative=tally.max_relative,
        mean_relative=_share(tally.sum_relative, tally.normal),
        nonfinite_error_rate=_share(tally.nonfinite_wrong, tally.count - tally.finite),
        relative_error_rate=_share(tally.relative_wrong, tally.threshold_normal),
        absolute_error_rate=_share(tally.absolute_wrong, tally.finite - tally.threshold_normal),
        max_ulp=tally.max_ulp,
        mean_ulp=_share(tally.sum_ulp, tally.finite),
        ulp_share=_share(tally.above_ulp, tally.finite),
    )


def _cosine(tally: _Tally) -> float | None:
    """Return the cosine over finite pairs; nan with a misplaced nan or inf, or where one side alone is zero."""
    if tally.count == 1:
        return None
    if tally.nonfinite_wrong:
        return math.nan
    # Not the root of the product, which may leave float64.
    norms = math.sqrt(tally.device_squares) * math.sqrt(tally.reference_squares)
    if norms == 0:
        return 1.0 if tally.device_squares == tally.reference_squares else math.nan
    return min(1.0, max(-1.0, tally.dot / norms))


def _metrics_of_equal(device: Values) -> Metrics:
    return Metrics(
        **dict.fromkeys(Metrics.__dataclass_fields__, 0.0)
        | {"cosine": 1.0 if device.size != 1 else None}
        | {"within_hundredth": 1.0, "within_thousandth": 1.0, "within_ten_thousandth": 1.0}
    )


def _scale(device: Values, reference: Values) -> float:
    """Return a power of two that brings the squares of float64 numbers into float64."""
    largest = 0.0
    for _, *both in blocks(device, reference):
        sizes = magnitudes(np.concatenate(both))
        largest = max(largest, float(np.max(sizes, where=np.isfinite(sizes), initial=0.0)))
    if largest == 0 or _SAFE_SQUARES[0] < largest < _SAFE_SQUARES[1]:
        return 1.0
    return math.ldexp(1.0, max(-1000, min(1000, -math.frexp(largest)[1])))


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def _count(mask: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))
