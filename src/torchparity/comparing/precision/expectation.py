"""The deviation of an output that rounding explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torchparity.comparing.precision import backward, forward, normalizing, optimizers, products, steps
from torchparity.comparing.precision.amounts import Amount, Budget, amount_of, place_of
from torchparity.comparing.precision.facts import CallFacts, Expectation, Received, Returned
from torchparity.comparing.precision.families import EXACT, PRODUCTS, Family, family_of, is_foreach, stem_of
from torchparity.comparing.precision.figures import (
    CROWDING,
    ESTIMATE,
    FLOAT32_UNIT,
    MARGIN,
    MASKING,
    ROUNDING,
    SKETCH_FLOOR,
    TF32_UNIT,
    UNKNOWN_GAIN,
    UNKNOWN_ROUNDINGS,
    of_few,
    smallest_of,
    unit_of,
)

Rule = Callable[[Amount, Sequence[Amount], CallFacts], Budget]
_RULES: dict[Family, Rule] = {
    "selecting": forward.selecting,
    "stretching": forward.stretching,
    "indexing": forward.indexing,
    "casting": forward.selecting,
    "overwriting": forward.overwriting,
    "choosing": steps.stepping,
    "creating": forward.creating,
    "switching": forward.switching,
    "adding": forward.adding,
    "averaging": forward.averaging,
    "multiplying": forward.multiplying,
    "dividing": forward.dividing,
    "fused product": forward.fused_product,
    "fused quotient": optimizers.quotient_step,
    "activation": forward.activation,
    "exponential": forward.exponential,
    "logarithm": forward.logarithm,
    "power": forward.power,
    "wave": forward.wave,
    "product": products.product,
    "convolution": products.product,
    "transposed convolution": products.product,
    "added product": products.product,
    "sum": forward.adding_up,
    "mean": forward.averaging_up,
    "norm": forward.norming,
    "variance": forward.variance,
    "running sum": forward.running_sum,
    "accumulating": forward.accumulating,
    "transform": forward.transform,
    "normalization": normalizing.normalization,
    "softmax": normalizing.softmax,
    "log softmax": normalizing.log_softmax,
    "loss": normalizing.loss,
    "distance": normalizing.distance,
    "attention": normalizing.attention,
    "unknown": forward.unknown,
}


def expected(output: Returned, received: Sequence[Received], call: CallFacts) -> Expectation:
    """Return the deviation of `output` that rounding explains.

    `received` are the tensors of the same record, in their order; what the call overwrites without reading may be left
    out. Tensors of whole numbers that differ, or inputs of which nothing is known, explain anything.
    """
    if is_foreach(call.operator):
        received = _of_same_entry(output, received)
    relevant = [part for part in received if not part.name.startswith("input.out") and 0 not in part.shape]
    behind = [part for part in call.forward_received if 0 not in part.shape] if call.direction == "backward" else []
    if 0 in output.shape:
        return Expectation(0.0, 0.0, 0.0, "the output is empty")
    if any(_is_choice(part) and part.deviation for part in (*relevant, *behind)):
        return Expectation(2.0, 0.0, 2.0, "an index or a mask differs")
    rounded = [part for part in relevant if not _is_choice(part)]
    behind = [part for part in behind if not _is_choice(part)]
    if (call.direction == "backward" and not relevant) or (rounded and all(part.deviation is None for part in rounded)):
        return Expectation(math.inf, 0.0, math.inf, "nobody knows what it received")
    if _is_choice(output):
        return _of_choice(output, rounded)
    known = max((part.deviation for part in (*rounded, *behind) if part.deviation is not None), default=0.0)
    out, given, earlier = _amounts(output, rounded, behind, known)
    family = family_of(call.operator)
    if out is None or given is None:
        return _of_unknown_sizes(output, rounded, behind, known, family)
    budget = _budget(out, given, earlier, call, family)
    return _expectation(output, out, (*given, *(earlier or ())), budget, call, family)


def _amounts(
    output: Returned, rounded: Sequence[Received], behind: Sequence[Received], known: float
) -> tuple[Amount | None, list[Amount] | None, list[Amount] | None]:
    """Return all tensors as amounts; None in place of those of which one has no known size."""
    out = amount_of(output, 0.0)
    given = [amount for part in rounded if (amount := amount_of(part, known)) is not None]
    earlier = [amount for part in behind if (amount := amount_of(part, known)) is not None]
    return (
        out,
        given if len(given) == len(rounded) else None,
        earlier if len(earlier) == len(behind) else None,
    )


def _budget(
    out: Amount, given: Sequence[Amount], earlier: Sequence[Amount] | None, call: CallFacts, family: Family
) -> Budget:
    if call.direction == "backward":
        if len(given) != 1 or not earlier:
            if len(given) == 1 and family in EXACT:
                return backward.RULES[family](out, given[0], (), call)
            return forward.unknown(out, (*given, *(earlier or ())), call)
        return backward.RULES[family](out, given[0], earlier, call)
    if stem_of(call.operator).startswith("fused") and call.in_optimizer:
        return optimizers.fused_step(out, given, call)
    return _RULES[family](out, given, call)


def _expectation(
    output: Returned, out: Amount, inputs: Sequence[Amount], budget: Budget, call: CallFacts, family: Family
) -> Expectation:
    coarse = max([out.unit, *(part.unit for part in inputs)])
    if call.computes_in is not None and family in PRODUCTS:
        coarse = max(coarse, unit_of(call.computes_in))
    work = min(coarse, FLOAT32_UNIT) * budget.work * of_few(out.count)
    rounding = _output_rounding(out, inputs, budget, family)
    operands = 0.0
    if budget.operands and any(part.finest < coarse for part in (out, *inputs)):
        operands = coarse * budget.operands
    if call.uses_tf32 and family in PRODUCTS:
        operands = max(operands, TF32_UNIT * budget.operands)
    own = MARGIN * (work + rounding + operands)
    if own:
        own += smallest_of(output.dtype if unit_of(output.dtype) >= out.unit else output.baseline_dtype) * math.sqrt(
            out.count
        )
    size = out.norm if out.norm > 0 else 1.0
    # The candidate rounds its own value, which is off by what was passed on.
    exact = tolerance = (own + budget.passed * (1.0 + 2.0 * out.unit)) / size
    if output.is_estimated:
        tolerance = tolerance * ESTIMATE + SKETCH_FLOOR
    reason = _reason(output, inputs, budget, own, rounding, operands, call)
    return Expectation(tolerance, own / size, budget.passed / size, reason, exact)


def _output_rounding(out: Amount, inputs: Sequence[Amount], budget: Budget, family: Family) -> float:
    """Return the error of rounding the result to a coarse dtype."""
    if family in EXACT and not budget.work:
        is_narrower = any(out.unit > part.finest or out.finest > part.finest for part in inputs)
        return ROUNDING * out.unit * out.norm if is_narrower else 0.0
    return ROUNDING * out.unit * out.norm if out.unit > FLOAT32_UNIT else 0.0


def _of_choice(output: Returned, rounded: Sequence[Received]) -> Expectation:
    """Return what may turn in a comparison or a search when its inputs are off a little."""
    deviation = max((part.deviation or 0.0 for part in rounded), default=0.0)
    if not deviation:
        return Expectation(0.0, 0.0, 0.0, "whole numbers and truth values are exact")
    count = math.prod(output.shape)
    turns = min(float(count), MARGIN + MARGIN * CROWDING * deviation * count)
    largest = abs(output.largest) if output.largest is not None and math.isfinite(output.largest) else 1.0
    norm = output.norm if output.norm is not None and 0 < output.norm < math.inf else 1.0
    share = max(largest, 1.0) * math.sqrt(turns) / norm
    return Expectation(share, 0.0, share, f"a choice between values that are off by {deviation:.1g}")


def _of_unknown_sizes(
    output: Returned, rounded: Sequence[Received], behind: Sequence[Received], known: float, family: Family
) -> Expectation:
    """Return an expectation in relative terms alone, where sizes are unknown or not finite."""
    units = [max(unit_of(part.dtype), unit_of(part.baseline_dtype)) for part in (output, *rounded, *behind)]
    estimate = ESTIMATE if any(part.is_estimated for part in (output, *rounded)) else 1.0
    is_copy = family in ("selecting", "casting", "overwriting", "stretching")
    out = max(unit_of(output.dtype), unit_of(output.baseline_dtype))
    own = MARGIN * ROUNDING * (out if out > FLOAT32_UNIT or is_copy else UNKNOWN_ROUNDINGS * max(units))
    if is_copy and all(unit >= out for unit in units):
        own = 0.0
    inherited = UNKNOWN_GAIN * known * estimate
    reason = f"the inputs are off by {known:.1g}" if inherited > own else "rounding of an unknown size"
    return Expectation(own + inherited, own, inherited, reason)


def _reason(
    output: Returned,
    inputs: Sequence[Amount],
    budget: Budget,
    own: float,
    rounding: float,
    operands: float,
    call: CallFacts,
) -> str:
    """Say in a clause where most of the tolerance comes from."""
    if budget.passed >= own:
        deviation = max((part.deviation for part in inputs), default=0.0)
        if not deviation:
            return "equal inputs and an exact operator"
        off = (
            f"the inputs are off by {deviation:.1g}"
            if deviation * MASKING > 1.0
            else "a mask hides what inputs are off by"
        )
        return off + (f", and it takes {budget.cause}" if budget.cause else "")
    if operands * MARGIN > own / 2:
        return "TF32 rounds the factors to 11 bits" if call.uses_tf32 else "the operands are rounded to a coarser dtype"
    if rounding * MARGIN > own / 2:
        mine, other = unit_of(output.dtype), unit_of(output.baseline_dtype)
        dtype = output.dtype if mine >= other else output.baseline_dtype
        return f"one rounding to {dtype.removeprefix('torch.')}"
    if budget.terms > 1.0:
        cancels = " that cancel" if budget.scale > UNKNOWN_GAIN * _output_norm(output) else ""
        return f"a sum of {round(budget.terms):,} terms{cancels}"
    return "rounding of its own arithmetic"


def _output_norm(output: Returned) -> float:
    return output.norm if output.norm is not None else math.inf


def _is_choice(part: Received) -> bool:
    """Tell whether a tensor holds whole numbers or truth values in both runs."""
    return not unit_of(part.dtype) and not unit_of(part.baseline_dtype)


def _of_same_entry(output: Returned, received: Sequence[Received]) -> list[Received]:
    """Return the entries of the lists that one output of a call on lists was made of, and what is in no list."""
    entry = place_of(output.name).rpartition(".")[2]
    chosen = []
    for part in received:
        _, dot, tail = place_of(part.name).rpartition(".")
        if not dot or tail == entry:
            chosen.append(part)
    return chosen
