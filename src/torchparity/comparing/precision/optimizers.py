"""Rounding of optimizers that divide a gradient by its own size: small gradients change sign, but steps are bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.precision.amounts import Amount, Budget, ratio
from torchparity.comparing.precision.facts import CallFacts
from torchparity.comparing.precision.figures import CROWDING, FUSED, MARGIN, ROUNDING, STEP_PEAK, TURNED_STEP
from torchparity.comparing.precision.forward import of_quotient, unknown

Given = Sequence[Amount]


def quotient_step(out: Amount, given: Given, call: CallFacts) -> Budget:
    """p + s m / d, the last step of Adam and its kin.

    An element whose gradient is smaller than its error may take the other sign: a share of about e of a matrix, so that
    the step is off by sqrt(e) of its norm. Of a vector all may be: the gradient of a key's bias is noise.
    """
    if len(given) < 3:
        return unknown(out, given, call)
    start, above, below = given[0], given[1], given[2]
    value = call.arguments.get("input.value", call.arguments.get("input.3", 1.0))
    factor = abs(float(value)) if isinstance(value, (int, float)) else 1.0
    step = factor * math.sqrt(out.count) * ratio(above.norm, below.norm)
    if call.in_optimizer:
        passed = step * moved_share(above.deviation + below.deviation, out)
    else:
        size = resized(out, step)
        passed = factor * of_quotient(above, below, size) if factor else 0.0
    work = FUSED * ROUNDING * (out.norm + start.norm) + FUSED * FUSED * ROUNDING * step
    cause = "steps of noise" if above.error or below.error else ""
    return Budget(work, 0.0, start.error + passed, 1.0, 0.0, cause)


def moved_share(deviation: float, out: Amount) -> float:
    """Return by how much of its norm a step may be off whose gradient is off by `deviation`."""
    if not deviation:
        return 0.0
    if len(out.shape) < 2:
        return TURNED_STEP
    return min(TURNED_STEP, 2.0 * MARGIN * math.sqrt(CROWDING * deviation))


def fused_step(out: Amount, given: Given, call: CallFacts) -> Budget:
    """An optimizer in one call: parameters, gradients and moments are lists, and each is written."""
    head = out.place.partition(".")[0] if "." in out.place else "0"
    mine = [part for part in given if part.shape == out.shape]
    deviation = max((part.deviation for part in mine), default=0.0)
    if head == "0" or not mine:
        value = call.arguments.get("input.lr", 1e-3)
        rate = abs(float(value)) if isinstance(value, (int, float)) else 1e-3
        start = mine[0].error if mine else 0.0
        step = rate * math.sqrt(out.count)
        return Budget(FUSED * FUSED * ROUNDING * (out.norm + step), 0.0, start + step * moved_share(deviation, out))
    return Budget(FUSED * FUSED * ROUNDING * out.norm, 0.0, MARGIN * FUSED * deviation * out.norm)


def resized(out: Amount, norm: float) -> Amount:
    """Return an amount of another norm."""
    peak = norm / math.sqrt(out.count) * STEP_PEAK
    return Amount(out.place, out.shape, out.count, norm, peak, 0.0, 0.0, out.unit, out.finest, out.mean)
