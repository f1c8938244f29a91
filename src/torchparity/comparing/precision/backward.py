"""Rounding of gradients: what came from behind, times what the forward call received."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torchparity.comparing.precision.amounts import Amount, Budget, ratio
from torchparity.comparing.precision.facts import CallFacts
from torchparity.comparing.precision.families import Family, stem_of
from torchparity.comparing.precision.figures import (
    CROWDING,
    CURVATURE,
    EXACTLY,
    FUSED,
    MARGIN,
    RARE,
    ROUNDING,
    SLOPE,
    TRANSCENDENTAL,
    walk,
)
from torchparity.comparing.precision.forward import of_factor, summed, unknown
from torchparity.comparing.precision.normalizing import (
    attention_gradient,
    loss_gradient,
    normalization_gradient,
    softmax_gradient,
)
from torchparity.comparing.precision.products import product_gradient, product_of

Given = Sequence[Amount]
Rule = Callable[[Amount, Amount, Given, CallFacts], Budget]
# Their gradient goes to the elements that a condition on the forward input names.
_TURNING_NAMES = """
    relu relu6 leakyrelu prelu hardtanh threshold clamp clip clampmin clampmax abs absolute max min maximum minimum
    amax amin fmax fmin sort topk kthvalue maxpool1d maxpool2d maxpool3d adaptivemaxpool2d cummax cummin
"""
_TURNING = frozenset(_TURNING_NAMES.split())


def selecting(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient is copied; where the forward input decides on it, some elements turn."""
    if stem_of(call.operator) not in _TURNING:
        if out.count < gradient.count and len(forward) <= 1:  # added up where it had been repeated
            return summed(out, [gradient], gradient.count / max(1, out.count))
        return Budget(0.0, 0.0, EXACTLY * gradient.error)
    passed = EXACTLY * gradient.error + sum(turned(part, gradient) for part in forward)
    overlaps = "pool" in stem_of(call.operator)
    is_calculated = overlaps or stem_of(call.operator) in ("abs", "absolute", "leakyrelu", "prelu")
    return Budget(FUSED * ROUNDING * out.norm if is_calculated else 0.0, 0.0, FUSED * passed if overlaps else passed)


def turned(part: Amount, gradient: Amount) -> float:
    """Return the norm of a gradient's elements that may turn because the input is near the threshold."""
    turns = CROWDING * part.deviation * part.count
    if turns < RARE:
        return 0.0
    turns = min(1.0 + turns + MARGIN * math.sqrt(turns), 2.0 * part.count)
    return min(gradient.largest, MARGIN * gradient.rms) * math.sqrt(turns)


def summing(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient of what was repeated is a sum."""
    return summed(out, [gradient], gradient.count / max(1, out.count))


def indexing(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """Rows that were taken several times add their gradients."""
    terms = gradient.count * (out.shape[0] if out.shape else 1) / max(1, out.count)
    passed = min(math.sqrt(max(1.0, terms)), MARGIN) * gradient.error
    scale = max(out.norm, gradient.norm)
    return Budget(walk(terms) * ROUNDING * scale, ROUNDING * scale, passed, terms, scale)


def adding(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient itself, times a number; summed where the argument was broadcast."""
    terms = gradient.count / max(1, out.count)
    if terms > 1.0:
        return summed(out, [gradient], terms)
    return Budget(ROUNDING * out.norm, 0.0, EXACTLY * gradient.error * max(1.0, ratio(out.norm, gradient.norm)))


def scaling(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient times a number, as for dropout, sums and means."""
    factor = ratio(out.norm, gradient.norm, 1.0)
    return Budget(FUSED * ROUNDING * out.norm, 0.0, SLOPE * max(gradient.error * factor, gradient.deviation * out.norm))


def multiplying(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient times the other factor, summed where the argument was broadcast."""
    others = [part for part in forward if part.place != out.place] or list(forward)
    terms = gradient.count / max(1, out.count)
    if not others or (len(forward) < 2 and stem_of(call.operator) != "square"):
        return scaling(out, gradient, forward, call)
    other = others[0]
    if terms > 1.0:
        return product_of(gradient, other, out, terms)
    passed = of_factor(gradient, other, out) + of_factor(other, gradient, out)
    return Budget(FUSED * ROUNDING * out.norm, 0.0, FUSED * passed)


def sloping(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient times a slope of about one at most, which changes with the input."""
    bent = 0.0
    for part in forward[:1]:
        bent = CURVATURE * min(
            gradient.largest * part.error, MARGIN * max(gradient.rms * part.error, part.deviation * out.norm)
        )
    return Budget(TRANSCENDENTAL * ROUNDING * max(out.norm, gradient.norm), 0.0, SLOPE * gradient.error + bent)


def curving(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient times a slope that is relative to the input: quotients, powers, exponentials."""
    if out.count < gradient.count:
        budget = summed(out, [gradient], gradient.count / max(1, out.count), ratio(out.norm, gradient.norm, 1.0))
        inherited = MARGIN * sum(part.deviation for part in forward) * budget.scale
        return Budget(
            budget.work * FUSED, budget.operands, budget.passed * MARGIN + inherited, budget.terms, budget.scale
        )
    passed = max(gradient.error * ratio(out.norm, gradient.norm, 1.0), gradient.deviation * out.norm)
    passed += sum(3.0 * part.deviation for part in forward) * out.norm
    passed += _nearness(out, gradient, forward, stem_of(call.operator)) * min(out.norm, MARGIN * out.largest)
    return Budget(TRANSCENDENTAL * ROUNDING * out.norm, 0.0, MARGIN * passed)


def _nearness(out: Amount, gradient: Amount, forward: Given, stem: str) -> float:
    """Return the relative error of the slope where the input is nearest to zero, as the largest slope tells it."""
    slope = min(ratio(out.largest, gradient.rms), 1e30)
    part = forward[-1]  # the divisor of a quotient, the only input of all others
    if stem in ("exp", "exp2"):
        return part.spread
    if stem in ("div", "divide", "truedivide") and len(forward) > 1 and out.place == part.place:
        return 2.0 * part.spread * math.sqrt(ratio(slope, forward[0].rms))
    inverse = {"sqrt": (2.0 * slope) ** 2, "rsqrt": (2.0 * slope) ** (2 / 3), "reciprocal": math.sqrt(slope)}
    return 1.5 * part.spread * float(inverse.get(stem, slope if stem != "pow" else 0.0))


def norming(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """g x / |x| and its kind."""
    relative = gradient.deviation + sum(part.deviation for part in forward)
    return Budget(TRANSCENDENTAL * ROUNDING * out.norm, ROUNDING * out.norm, MARGIN * 2.0 * relative * out.norm)


def log_softmax(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """g - p sum(g): the sum may be larger than what is left."""
    moved = sum(max(part.spread, part.deviation * part.largest) for part in forward[:1])
    scale = max(out.norm, gradient.norm)
    passed = MARGIN * (gradient.error + moved * scale)
    return Budget(TRANSCENDENTAL * FUSED * ROUNDING * scale, ROUNDING * scale, passed, 1.0, scale)


def transform(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """A Fourier transform again."""
    stages = math.log2(max(2.0, float(max(out.shape, default=2))))
    scale = max(out.norm, gradient.norm * ratio(out.norm, gradient.norm, 1.0))
    return Budget(FUSED * stages * ROUNDING * scale, 0.0, MARGIN * gradient.deviation * scale)


def unclear(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """Nothing is known of the operator."""
    return unknown(out, [gradient, *forward], call)


RULES: dict[Family, Rule] = {
    "selecting": selecting,
    "stretching": summing,
    "indexing": indexing,
    "casting": selecting,
    "overwriting": adding,
    "choosing": unclear,
    "creating": unclear,
    "switching": scaling,
    "adding": adding,
    "averaging": scaling,
    "multiplying": multiplying,
    "dividing": curving,
    "fused product": unclear,
    "fused quotient": unclear,
    "activation": sloping,
    "exponential": curving,
    "logarithm": curving,
    "power": curving,
    "wave": sloping,
    "product": product_gradient,
    "convolution": product_gradient,
    "transposed convolution": product_gradient,
    "added product": product_gradient,
    "sum": scaling,
    "mean": scaling,
    "norm": norming,
    "variance": norming,
    "running sum": unclear,
    "accumulating": selecting,
    "transform": transform,
    "normalization": normalization_gradient,
    "softmax": softmax_gradient,
    "log softmax": log_softmax,
    "loss": loss_gradient,
    "distance": norming,
    "attention": attention_gradient,
    "unknown": unclear,
}
