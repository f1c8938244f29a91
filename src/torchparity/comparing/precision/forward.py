"""Rounding of forward calls that copy, calculate element by element, or add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.precision.amounts import Amount, Budget, ratio, total_error
from torchparity.comparing.precision.facts import CallFacts
from torchparity.comparing.precision.families import stem_of
from torchparity.comparing.precision.figures import (
    ARITHMETIC,
    COMPOSITE,
    EXACTLY,
    FUSED,
    MARGIN,
    ROUNDING,
    SLOPE,
    TRANSCENDENTAL,
    UNKNOWN_GAIN,
    UNKNOWN_ROUNDINGS,
    walk,
)

Given = Sequence[Amount]


def selecting(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Elements are copied, so errors are too."""
    return Budget(0.0, 0.0, EXACTLY * total_error(given))


def stretching(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Every element is copied equally often."""
    return Budget(0.0, 0.0, EXACTLY * sum(part.error * stretch(part, out) for part in given))


def indexing(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Any row may be taken every time, and the rows that are taken may be those that are off."""
    passed = 0.0
    for part in given:
        rows = out.count * (part.shape[0] if part.shape else 1) / part.count
        passed += part.error * math.sqrt(max(1.0, rows))
    return Budget(0.0, 0.0, EXACTLY * passed)


def overwriting(out: Amount, given: Given, call: CallFacts) -> Budget:
    """The former content of the first tensor counts for nothing."""
    return stretching(out, given[1:] if len(given) > 1 else (), call)


def creating(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Numbers come from nowhere; only a ramp is calculated."""
    is_ramp = stem_of(call.operator) in ("arange", "linspace", "logspace")
    return Budget(ARITHMETIC * FUSED * ROUNDING * out.norm if is_ramp else 0.0, 0.0, 0.0)


def scaling(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Every element is multiplied with the same number, as dropout does with what it keeps."""
    return Budget(FUSED * ROUNDING * out.norm, 0.0, EXACTLY * _scaled_errors(out, given))


def switching(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Dropout multiplies what it keeps with 1 / (1 - p)."""
    share = _number(call, "input.p", _number(call, "input.1", 0.5))
    return Budget(FUSED * ROUNDING * out.norm, 0.0, EXACTLY * total_error(given) / max(1e-3, 1.0 - share))


def adding(out: Amount, given: Given, call: CallFacts) -> Budget:
    """One rounding of the result; errors add up."""
    factor = abs(_number(call, "input.alpha", 1.0))
    parts = [part.error * stretch(part, out) * (factor if place else 1.0) for place, part in enumerate(given)]
    work = ARITHMETIC * ROUNDING * out.norm
    if factor != 1.0 and len(given) > 1:
        work += ROUNDING * factor * given[1].norm * stretch(given[1], out)
    return Budget(work, 0.0, EXACTLY * sum(parts))


def averaging(out: Amount, given: Given, call: CallFacts) -> Budget:
    """a + w (b - a)."""
    weight = _number(call, "input.2", _number(call, "input.weight", 1.0))
    shares = (abs(1.0 - weight), abs(weight)) if 0.0 < weight < 1.0 else (1.0, 1.0)
    passed = sum(part.error * share for part, share in zip(given, shares, strict=False))
    norms = sum(part.norm * share for part, share in zip(given, shares, strict=False))
    return Budget(FUSED * ROUNDING * max(out.norm, norms), 0.0, EXACTLY * passed)


def multiplying(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Each factor's error is multiplied with the other."""
    work = ARITHMETIC * ROUNDING * out.norm
    if stem_of(call.operator) == "square" and given:
        return Budget(work, 0.0, 2.0 * of_factor(given[0], given[0], out))
    if len(given) < 2:
        return Budget(work, 0.0, EXACTLY * _scaled_errors(out, given))
    left, right = given[0], given[1]
    return Budget(work, 0.0, of_factor(left, right, out) + of_factor(right, left, out))


def fused_product(out: Amount, given: Given, call: CallFacts) -> Budget:
    """a + s b c."""
    if len(given) < 3:
        return unknown(out, given, call)
    factor = abs(_number(call, "input.value", _number(call, "input.3", 1.0)))
    start, left, right = given[0], given[1], given[2]
    size = min(left.largest * right.norm, left.norm * right.largest)
    passed = start.error + factor * (of_factor(left, right, out, size) + of_factor(right, left, out, size))
    return Budget(FUSED * ROUNDING * (out.norm + start.norm), 0.0, EXACTLY * passed)


def dividing(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Errors are relative; small divisors make large ones of them."""
    work = ARITHMETIC * ROUNDING * out.norm
    if stem_of(call.operator) in ("div", "divide", "truedivide"):
        if len(given) < 2:
            return Budget(work, 0.0, EXACTLY * _scaled_errors(out, given))
        return Budget(work, 0.0, of_quotient(given[0], given[1], out))
    passed = 0.0
    if given:
        below = given[-1]  # 1 / b has b^-2 for a slope
        slope = out.largest * ratio(out.norm, _number(call, "input.1", 1.0) or 1.0)
        passed = MARGIN * max(below.deviation * out.norm, below.spread * slope)
    return Budget(work, 0.0, passed)


def activation(out: Amount, given: Given, call: CallFacts) -> Budget:
    """The slope is about one at most; gelu subtracts what is nearly equal, so its input's size counts."""
    norm = max([out.norm, *(part.norm for part in given)])
    return Budget(TRANSCENDENTAL * ROUNDING * norm, 0.0, SLOPE * total_error(given))


def wave(out: Amount, given: Given, call: CallFacts) -> Budget:
    """The slope is one at most; the angle may have been rounded."""
    return Budget(TRANSCENDENTAL * ROUNDING * out.norm, 0.0, EXACTLY * total_error(given))


def exponential(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Absolute errors become relative ones; multiplying by log2(e) first rounds the exponent."""
    if not given:
        return unknown(out, given, call)
    part = given[0]
    work = TRANSCENDENTAL * ROUNDING * out.norm
    relative = max(part.spread, part.deviation * part.largest)
    return Budget(work, 0.0, min(out.largest * part.error * math.e, MARGIN * relative * out.norm))


def logarithm(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Relative errors become absolute ones."""
    relative = sum(part.deviation for part in given)
    size = math.sqrt(out.count)
    work = TRANSCENDENTAL * ROUNDING * max(out.norm, size)
    return Budget(work, 0.0, MARGIN * MARGIN * relative * size)


def power(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Relative errors are multiplied with the exponent; below one, small numbers make large ones of them."""
    work = TRANSCENDENTAL * ROUNDING * out.norm
    if not given:
        return unknown(out, given, call)
    part, stem = given[0], stem_of(call.operator)
    exponent = {"sqrt": 0.5, "rsqrt": -0.5}.get(stem, _number(call, "input.1", _number(call, "input.exponent", 2.0)))
    slope = abs(exponent)
    if exponent >= 1.0:
        steepest = slope * (part.largest + part.error) ** (exponent - 1.0) if part.largest < 1e30 else math.inf
        growth = (1.0 + min(part.deviation, 1e30)) ** min(exponent - 1.0, 8.0)
        passed = min(steepest * part.error, MARGIN * slope * growth * _twofold(part, out))
    elif exponent > 0.0:
        crowded = part.count**0.25 * math.sqrt(part.error)  # |sqrt(a) - sqrt(b)| <= sqrt(|a - b|)
        passed = min(crowded if exponent == 0.5 else math.inf, MARGIN * MARGIN * slope * part.deviation * out.norm)
    else:
        near_zero = part.spread * out.largest ** (-1.0 / exponent) if 0.0 < out.largest < 1e30 else 0.0
        passed = MARGIN * slope * max(part.deviation, near_zero) * out.norm
    return Budget(work, 0.0, passed)


def adding_up(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Sums: a random walk whose steps have the size of the partial sums."""
    if not given:
        return unknown(out, given, call)
    whole = given if len(given) == 1 or out.count >= given[0].count else given[:1]
    return summed(out, whole, sum(part.count for part in whole) / max(1, out.count))


def summed(out: Amount, given: Given, terms: float, share: float = 1.0) -> Budget:
    """Return the budget of a sum of `terms` terms that is multiplied with `share` in the end."""
    terms = max(terms, 1.0)
    norm, error = (math.hypot(*values) for values in zip(*((part.norm, part.error) for part in given), strict=True))
    scale = max(out.norm, norm * share)
    # Cauchy and Schwarz: errors may have the same sign, as those that a batch norm leaves in a gradient have.
    passed = EXACTLY * math.sqrt(terms) * error * share
    return Budget(walk(terms) * ROUNDING * scale, ROUNDING * scale, passed, terms, norm * share)


def averaging_up(out: Amount, given: Given, call: CallFacts) -> Budget:
    """A mean is a sum divided by its length; pooling and interpolation are means too."""
    if not given:
        return unknown(out, given, call)
    terms = max(1.0, given[0].count / max(1, out.count))
    budget = summed(out, given[:1], terms, 1.0 / terms)
    if out.count <= given[0].count and stem_of(call.operator) in ("mean", "nanmean"):
        return budget
    work = max(budget.work, FUSED * FUSED * ROUNDING * max(out.norm, given[0].norm))
    return Budget(work, budget.operands, SLOPE * given[0].error * stretch(given[0], out), terms, budget.scale)


def norming(out: Amount, given: Given, call: CallFacts) -> Budget:
    """The norm of a sum is at most the sum of the norms; squares do not cancel."""
    terms = given[0].count / max(1, out.count) if given else 1.0
    work = walk(terms) * ROUNDING * out.norm
    return Budget(work, ROUNDING * out.norm, EXACTLY * total_error(given), terms)


def variance(out: Amount, given: Given, call: CallFacts) -> Budget:
    """The rest of squares after the mean was subtracted."""
    if not given:
        return unknown(out, given, call)
    part = given[0]
    terms = part.count / max(1, out.count)
    is_root = stem_of(call.operator).startswith("std")
    inside = out.norm / math.sqrt(out.count) if is_root else math.sqrt(out.norm / math.sqrt(out.count))
    off_centre = max(1.0, ratio(part.rms, inside, UNKNOWN_GAIN))
    work = walk(terms) * ROUNDING * out.norm * off_centre
    return Budget(work, ROUNDING * out.norm, MARGIN * part.deviation * off_centre * out.norm, terms)


def running_sum(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Sums one after the other: each error stays in all that follow."""
    if not given:
        return unknown(out, given, call)
    terms = float(max(out.shape, default=1))
    growth = math.sqrt(terms)
    passed = min(terms * given[0].error, MARGIN * growth * given[0].error + MARGIN * given[0].deviation * out.norm)
    return Budget(growth * ROUNDING * out.norm + ROUNDING * out.norm, ROUNDING * out.norm, passed, terms, given[0].norm)


def accumulating(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Rows are added where an index says; the order is anybody's."""
    if not given:
        return unknown(out, given, call)
    added = given[-1]
    terms = float(added.shape[0]) if added.shape else 1.0
    scale = max(out.norm, added.norm)
    passed = sum(part.error for part in given[:-1]) + min(math.sqrt(terms), MARGIN) * added.error
    return Budget(walk(terms) * ROUNDING * scale, ROUNDING * scale, EXACTLY * passed, terms, scale)


def transform(out: Amount, given: Given, call: CallFacts) -> Budget:
    """A Fourier transform keeps norms up to a factor, in log2(n) stages of one rounding."""
    stages = math.log2(max(2.0, float(max(out.shape, default=2))))
    passed = MARGIN * sum(part.error * ratio(out.norm, part.norm, 1.0) for part in given)
    return Budget(FUSED * stages * ROUNDING * out.norm, 0.0, passed)


def unknown(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Nothing is known of the operator but that errors do not grow beyond measure."""
    norm = max([out.norm, *(min(part.norm, out.norm * UNKNOWN_GAIN) for part in given)])
    deviation = max((part.deviation for part in given), default=0.0)
    return Budget(
        UNKNOWN_ROUNDINGS * ROUNDING * out.norm, ROUNDING * COMPOSITE * norm, UNKNOWN_GAIN * deviation * out.norm
    )


def stretch(part: Amount, out: Amount) -> float:
    """Return what repeating a tensor to the output's size makes of its norm."""
    return math.sqrt(out.count / part.count) if out.count > part.count else 1.0


def of_factor(part: Amount, other: Amount, out: Amount, size: float | None = None) -> float:
    """Return what the error of one factor makes of an elementwise product whose norm is `size`."""
    if not part.error:
        return 0.0
    repeated = part.error * stretch(part, out)
    size = (out.norm if size is None else size) * (1.0 + other.deviation)
    usual = max(repeated * other.reach, part.deviation * size)
    return min((other.largest + other.error) * repeated * EXACTLY, MARGIN * usual)


def of_quotient(above: Amount, below: Amount, out: Amount) -> float:
    """Return what the errors of both parts make of an elementwise quotient."""
    passed = max(above.deviation * out.norm, above.error * ratio(out.norm, above.norm, 1.0))
    passed += max(below.deviation * out.norm, below.spread * out.largest * ratio(out.norm, above.rms))
    return MARGIN * passed


def _twofold(part: Amount, out: Amount) -> float:
    return max(part.error * ratio(out.norm, part.norm), part.deviation * out.norm)


def _scaled_errors(out: Amount, given: Given) -> float:
    return sum(part.error * ratio(out.norm, part.norm, 1.0) for part in given)


def _number(call: CallFacts, name: str, otherwise: float) -> float:
    value = call.arguments.get(name, otherwise)
    return float(value) if isinstance(value, (int, float)) else otherwise
