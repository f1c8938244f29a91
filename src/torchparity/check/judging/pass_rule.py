"""The rule that decides whether a result passes: cosine, and the double-k metric of its dtype."""

from __future__ import annotations

from torchparity.check.judging.float_formats import FloatFormat
from torchparity.check.judging.judgement import Metrics

_COSINE = 0.99


def broken_rules(metrics: Metrics, form: FloatFormat) -> list[str]:
    """Return what the result lacks to pass, each as the end of a sentence; nothing where it passes."""
    lacking = []
    # A single number has no cosine. nan is not above 0.99 either.
    if metrics.cosine is not None and not metrics.cosine > _COSINE:
        lacking.append(f"its cosine {metrics.cosine:.6g} is not above {_COSINE}")
    name, within, k = _double_k(metrics, form)
    if not within > 1 - 1 / k:
        lacking.append(f"its double {name} {within:.6g} is not above {1 - 1 / k}")
    return lacking


def has_outliers(metrics: Metrics, form: FloatFormat) -> bool:
    """Tell whether single elements break the relative limit, though too few of them to fail the result."""
    _, within, _ = _double_k(metrics, form)
    return within < 1


def _double_k(metrics: Metrics, form: FloatFormat) -> tuple[str, float, int]:
    if form.is_half:
        return "thousandth", metrics.within_thousandth or 0.0, 1000
    return "ten-thousandth", metrics.within_ten_thousandth or 0.0, 10000
