"""Rounding of matrix products and convolutions, and of their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchparity.comparing.precision.amounts import Amount, Budget
from torchparity.comparing.precision.facts import CallFacts
from torchparity.comparing.precision.families import Family, family_of, stem_of
from torchparity.comparing.precision.figures import ALIKE, EXACTLY, MARGIN, PIXEL_BLOCK, PRODUCT_BLOCK, ROUNDING, walk
from torchparity.comparing.precision.forward import stretch, summed, unknown

Given = Sequence[Amount]


def product(out: Amount, given: Given, call: CallFacts) -> Budget:
    """y = x W + b: sums of products, and what is added to them."""
    factors, added = _split(given, family_of(call.operator))
    if len(factors) < 2:
        return unknown(out, given, call)
    budget = product_of(factors[0], factors[1], out, _terms(factors, out, call))
    passed = budget.passed + sum(part.error * stretch(part, out) for part in added)
    norm = sum(part.norm * stretch(part, out) for part in added)
    work = budget.work + ROUNDING * norm
    return Budget(work, budget.operands, passed, budget.terms, budget.scale + norm)


def product_gradient(out: Amount, gradient: Amount, forward: Given, call: CallFacts) -> Budget:
    """The gradient of a factor is the product of the output's gradient and the other factor."""
    factors, _ = _split(forward, family_of(call.operator))
    places = [part.place for part in factors]
    is_convolution = "convolution" in family_of(call.operator)
    if len(factors) < 2 or out.place not in places:
        return _bias_gradient(out, gradient, is_convolution)
    other = factors[1 - places.index(out.place)]
    # The three products of a call have the same multiplications; each output takes its share.
    multiplications = gradient.count * _terms(factors, gradient, call)
    terms = max(1.0, multiplications / max(1, out.count))
    return product_of(gradient, other, out, terms, PIXEL_BLOCK if is_convolution else PRODUCT_BLOCK)


def _bias_gradient(out: Amount, gradient: Amount, is_convolution: bool) -> Budget:
    """The gradient of what was added is a sum, which cancels where a norm follows."""
    terms = gradient.count / max(1, out.count)
    budget = summed(out, [gradient], terms)
    if not is_convolution:
        return budget
    work = ALIKE * walk(terms, PIXEL_BLOCK) * ROUNDING * max(out.norm, gradient.norm)
    return Budget(work, budget.operands, budget.passed, budget.terms, budget.scale)


def product_of(left: Amount, right: Amount, out: Amount, terms: float, block: float = PRODUCT_BLOCK) -> Budget:
    """Return the budget of sums of `terms` products.

    The sums' size is that of terms with random signs, rms(x) rms(w) sqrt(n), unless they turned out larger.
    """
    random = left.rms * right.rms * math.sqrt(terms * out.count)
    scale = max(out.norm, random)
    passed = of_matrix(left, right, out, terms) + of_matrix(right, left, out, terms)
    return Budget(walk(terms, block) * ROUNDING * scale, 2.0 * ROUNDING * scale, passed, terms, random)


def of_matrix(part: Amount, other: Amount, out: Amount, terms: float) -> float:
    """Return what the error of one factor makes of a product.

    The largest singular value of a random m x n matrix is rms (sqrt(m) + sqrt(n)); m and n are the terms and what is
    left of the output. No matrix has one beyond its norm.
    """
    if not part.error:
        return 0.0
    usual = other.reach * (math.sqrt(terms * out.count / part.count) + math.sqrt(terms))
    passed = MARGIN * max(part.error * usual, part.deviation * out.norm * (1.0 + other.deviation))
    repeated = max(1.0, out.count * terms / (part.count * max(1.0, other.count / terms)))  # batches, sliding windows
    return min(passed, EXACTLY * part.error * (other.norm + other.error) * math.sqrt(repeated))


def _split(given: Given, family: Family) -> tuple[Given, Given]:
    """Return the two factors and what is added."""
    if family == "added product" and len(given) >= 3:
        return given[1:3], given[:1]
    return given[:2], given[2:]


def _terms(factors: Given, out: Amount, call: CallFacts) -> float:
    """Return the number of products that are added for each element of the output."""
    left, right = factors[0], factors[1]
    family = family_of(call.operator)
    if family == "convolution":
        return right.count / max(1, right.shape[0] if right.shape else 1)
    if family == "transposed convolution":
        return right.count / max(1, right.shape[1] if len(right.shape) > 1 else 1)
    stem = stem_of(call.operator)
    if stem in ("outer", "ger", "addr", "kron"):
        return 1.0
    if stem in ("einsum", "tensordot", "bilinear") or not left.shape:
        return max(1.0, math.sqrt(left.count * right.count / max(1, out.count)))
    return float(left.shape[-1])
