"""Rounding of norms, softmax, losses and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.precision.amounts import Amount, Budget, ratio
from torchparity.comparing.precision.facts import CallFacts
from torchparity.comparing.precision.families import stem_of
from torchparity.comparing.precision.figures import (
    COMPOSITE,
    FUSED,
    MARGIN,
    ROUNDING,
    UNKNOWN_CENTRE,
    walk,
)
from torchparity.comparing.precision.forward import summed, unknown

Given = Sequence[Amount]


def normalization(out: Amount, given: Given, call: CallFacts) -> Budget:
    """(x - mean) / deviation * weight + bias: errors relative to x, times how far x is off its mean."""
    if not given:
        return unknown(out, given, call)
    data, weight = given[0], _affine(given, call)
    if out.count != data.count:  # statistics that the call writes beside its result
        return summed(out, [data], data.count / max(1, out.count), out.count / data.count)
    centre = _centre(data, stem_of(call.operator))
    size = weight * math.sqrt(out.count)
    relative = centre * data.deviation + sum(part.deviation for part in given[1:] if not _is_ignored(part, call))
    work = (COMPOSITE / FUSED + centre) * ROUNDING * max(size, out.norm)
    return Budget(work, ROUNDING * out.norm, MARGIN * relative * max(size, out.norm))


def normalization_gradient(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """Of the data: (g - mean g - x mean(g x)) / deviation; of weight and bias: sums of g x and of g."""
    if not forward:
        return unknown(out, [gradient], call)
    data = forward[0]
    centre = _centre(data, stem_of(call.operator))
    if out.place == data.place:
        scale = max(out.norm, gradient.norm * _affine(forward, call) * centre * ratio(1.0, data.rms, 1.0))
        changed = sum(part.deviation for part in forward[1:] if not _is_ignored(part, call))
        passed = MARGIN * scale * (gradient.deviation + centre * data.deviation + changed)
        return Budget(COMPOSITE * ROUNDING * scale, ROUNDING * scale, passed, 1.0, scale)
    budget = summed(out, [gradient], gradient.count / max(1, out.count))
    of_data = MARGIN * centre * data.deviation * max(gradient.norm, out.norm)
    work = budget.work * (1.0 + centre)
    return Budget(work, budget.operands, budget.passed * centre + of_data, budget.terms, budget.scale)


def softmax(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Its slope is at most one half; absolute errors of the scores count."""
    error = sum(part.error for part in given)
    relative = max((max(part.spread, part.deviation * part.largest) for part in given), default=0.0)
    work = COMPOSITE * ROUNDING * out.norm
    return Budget(work, ROUNDING * out.norm, min(0.51 * error, MARGIN * relative * out.norm))


def softmax_gradient(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """p (g - sum p g): what is subtracted may be all there is."""
    rows = out.count / max(1, out.shape[-1] if out.shape else 1)
    scale = max(out.norm, gradient.rms * math.sqrt(rows))
    moved = sum(max(part.spread, part.deviation * part.largest) for part in forward[:1])
    passed = min(0.51 * gradient.error, MARGIN * max(gradient.spread * math.sqrt(rows), gradient.deviation * scale))
    passed += MARGIN * moved * scale
    return Budget(COMPOSITE * ROUNDING * scale, ROUNDING * scale, passed, 1.0, scale)


def log_softmax(out: Amount, given: Given, call: CallFacts) -> Budget:
    """Absolute errors of the scores, and of the sum of their exponentials in every element of a row."""
    if not given:
        return unknown(out, given, call)
    scores = given[0]
    size = max(out.norm, scores.norm if out.count == scores.count else scores.rms * math.sqrt(out.count))
    error = scores.error if out.count == scores.count else scores.spread * math.sqrt(out.count) * MARGIN
    return Budget(COMPOSITE * ROUNDING * size, ROUNDING * size, MARGIN * error)


def loss(out: Amount, given: Given, call: CallFacts) -> Budget:
    """The mean over rows of log(sum(exp(x))) - x: absolute errors of the scores."""
    if not given:
        return unknown(out, given, call)
    scores = given[0]
    width = scores.shape[1] if len(scores.shape) > 1 else 1
    rows = scores.count / max(1, width)
    reduction = call.arguments.get("input.reduction", "mean")
    share = 1.0 if out.count > 1 or reduction == "none" else math.sqrt(rows) if reduction == "sum" else rows**-0.5
    level = scores.largest + math.log(width + 1.0)
    scale = max(out.norm, level * math.sqrt(rows) * share)
    passed = 1.5 * math.sqrt(len(given)) * math.hypot(*(part.error for part in given)) * share
    work = (FUSED + walk(rows) if out.count == 1 else FUSED) * ROUNDING * scale
    return Budget(work, ROUNDING * level * math.sqrt(rows) * share / math.sqrt(rows), passed, rows, scale)


def loss_gradient(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """(p - y) g / rows: a probability near one is subtracted from one."""
    width = out.shape[1] if len(out.shape) > 1 else 1
    rows = out.count / max(1, width)
    is_mean = gradient.count == 1 and call.arguments.get("input.reduction", "mean") == "mean"
    factor = gradient.rms / rows if is_mean else gradient.rms
    scale = max(out.norm, factor * math.sqrt(rows))
    moved = forward[0] if forward else None
    passed = MARGIN * gradient.deviation * out.norm
    if moved is not None:
        passed += min(moved.error * factor, MARGIN * max(moved.spread, moved.deviation * moved.largest) * scale)
    return Budget(COMPOSITE * ROUNDING * scale, ROUNDING * scale, passed, 1.0, scale)


def distance(out: Amount, given: Given, call: CallFacts) -> Budget:
    """A mean of squared differences: what was subtracted counts, not what is left."""
    if len(given) < 2:
        return unknown(out, given, call)
    left, right = given[0], given[1]
    reduction = call.arguments.get("input.reduction", "mean")
    share = 1.0 / left.count if reduction == "mean" and out.count == 1 else 1.0
    between = math.sqrt(out.norm / share) if out.count == 1 else math.sqrt(out.norm) * out.count**0.25
    passed = 2.0 * share * (between + left.error + right.error) * (left.error + right.error)
    if stem_of(call.operator) == "l1loss":
        passed = (left.error + right.error) * share * math.sqrt(left.count)
    work = (
        walk(left.count / out.count) * ROUNDING * out.norm
        + 2.0 * share * between * ROUNDING * left.norm * left.count**-0.5
    )
    return Budget(work, ROUNDING * out.norm, passed, left.count / out.count)


def attention(out: Amount, given: Given, call: CallFacts) -> Budget:
    """softmax(q k s) v: absolute errors of the scores, and those of the values."""
    if len(given) < 3:
        return unknown(out, given, call)
    moved, level = _scores(given, call)
    size = max(out.norm, given[2].rms * math.sqrt(out.count))
    value = given[2]
    passed = MARGIN * (max(value.spread * math.sqrt(out.count), value.deviation * out.norm) + moved * size)
    passed += sum(part.error for part in given[3:])
    # Errors of the probabilities have random signs and average like the values.
    roundings = (COMPOSITE + walk(_length(value))) * (1.0 + min(level, COMPOSITE))
    operands = ROUNDING * (2.0 + min(level, COMPOSITE)) * out.norm
    return Budget(roundings * ROUNDING * out.norm, operands, passed, 1.0, size)


def attention_gradient(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """Products of the gradient with probabilities, values, queries and keys; rows cancel as in a softmax."""
    if len(forward) < 3:
        return unknown(out, [gradient], call)
    moved, level = _scores(forward, call)
    query, key, value = forward[:3]
    if out.place == value.place:
        size = max(out.norm, gradient.norm)
    else:
        other = key if out.place == query.place else query
        scale = query.shape[-1] ** -0.5 if query.shape else 1.0
        # d = p (g v): each row has the size of one product of length E, and is multiplied with a row of the other
        size = max(out.norm, gradient.norm * value.rms * math.sqrt(value.shape[-1]) * other.rms * scale)
    deviation = gradient.deviation + value.deviation + query.deviation + key.deviation
    passed = MARGIN * size * (deviation + moved)
    roundings = (COMPOSITE + walk(_length(query))) * (1.0 + min(level, COMPOSITE))
    operands = ROUNDING * (2.0 + min(level, COMPOSITE)) * size
    return Budget(roundings * ROUNDING * size, operands, passed, 1.0, size)


def _length(part: Amount) -> float:
    """Return the number of tokens."""
    return float(part.shape[-2]) if len(part.shape) > 1 else 1.0


def _scores(given: Given, call: CallFacts) -> tuple[float, float]:
    """Return the absolute error of attention's scores, and their size."""
    query, key = given[0], given[1]
    width = float(query.shape[-1]) if query.shape else 1.0
    value = call.arguments.get("input.scale", 0.0)
    scale = (abs(float(value)) if isinstance(value, (int, float)) else 0.0) or width**-0.5
    level = scale * math.sqrt(width) * query.rms * key.rms
    usual = scale * math.sqrt(width) * (query.spread * key.rms + key.spread * query.rms)
    largest = MARGIN * level  # scores of the size of their outliers
    return max(usual, largest * (query.deviation + key.deviation)), level


def _affine(given: Given, call: CallFacts) -> float:
    """Return the size of a norm's weight, 1 where it has none."""
    place = "3" if stem_of(call.operator).startswith("batchnorm") else "2"
    return next((part.largest for part in given[1:] if part.place in ("weight", place)), 1.0)


def _is_ignored(part: Amount, call: CallFacts) -> bool:
    """Tell whether a tensor is a statistic that training writes and does not read."""
    return part.place in ("1", "2", "running_mean", "running_var") and bool(
        call.arguments.get("input.training", call.arguments.get("input.5", False))
    )


def _centre(data: Amount, stem: str) -> float:
    """Return how much larger the data are than their distance from their mean."""
    if stem == "rmsnorm":
        return 1.0
    if data.mean is None:
        return UNKNOWN_CENTRE
    inside = data.rms**2 - data.mean**2
    return max(UNKNOWN_CENTRE, math.sqrt(ratio(data.rms**2, inside, 1e6)))
