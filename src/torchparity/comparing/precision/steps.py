"""Rounding of forward calls that jump: round, floor, remainder and their kin."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.precision.amounts import Amount, Budget, total_error
from torchparity.comparing.precision.facts import CallFacts
from torchparity.comparing.precision.families import stem_of
from torchparity.comparing.precision.figures import CROWDING, EXACTLY, MARGIN

_AROUND_ZERO = ("sgn", "heaviside")
_OF_A_DIVISOR = ("remainder", "fmod")


def stepping(out: Amount, given: Sequence[Amount], call: CallFacts) -> Budget:
    """Elements near a jump turn when they are off: of errors without a pattern, as many as they cover of the step."""
    error = total_error(given)
    if not error:
        return Budget(0.0, 0.0, 0.0)
    step = _step(out, call)
    turning = math.sqrt(out.count) * error / step
    if stem_of(call.operator) in _AROUND_ZERO:
        turning = CROWDING * max(part.deviation for part in given) * out.count
    turned = min(float(out.count), MARGIN + MARGIN * turning)
    return Budget(0.0, 0.0, EXACTLY * error + step * math.sqrt(turned))


def _step(out: Amount, call: CallFacts) -> float:
    if stem_of(call.operator) in _OF_A_DIVISOR:
        return max(out.largest, 1e-30)
    decimals = call.arguments.get("input.decimals", 0)
    return 10.0**-decimals if isinstance(decimals, int) and abs(decimals) < 30 else 1.0
