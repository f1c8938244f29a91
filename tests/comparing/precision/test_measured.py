"""The model of rounding against real rounding: it covers it, and it covers little more."""

from __future__ import annotations

import statistics
from functools import cache

import pytest
import torch

from tests.support.rounding import CASES, own_rounding, passed_noise

NOISE = 1e-6
# Tolerance over deviation, in the median. A sum of few numbers may come out exact by chance, and operators that
# cancel or choose have a tolerance for the case that they do.
LARGEST_MEDIAN = 60.0
LOOSE = {
    "sum 65536": "one number",
    "sum with a mean": "four numbers",
    "vector_norm": "one number",
    "mse_loss": "one number",
    "cross_entropy": "one number",
    "cross_entropy sum": "one number",
    "cumsum": "torch's CPU adds in float64",
    "softmax": "p (g - sum p g) may cancel",
    "softmax of large scores": "most probabilities are zero",
    "attention 16": "its rows may cancel as in a softmax",
    "attention 128": "its rows may cancel as in a softmax",
    "addcmul": "no rule for its gradient",
}


@cache
def measured(case):
    """The samples of a case: its own rounding, and noise passed on."""
    torch.manual_seed(0)
    return list(own_rounding(case)), list(passed_noise(case, NOISE))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rounding_with_equal_inputs_is_expected(case):
    own, _ = measured(case)

    assert [sample for sample in own if sample.is_beyond] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_noise_that_is_passed_on_is_expected(case):
    _, passed = measured(case)

    assert [sample for sample in passed if sample.is_beyond] == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.is_conditioned and case.name not in LOOSE], ids=lambda case: case.name
)
def test_little_more_is_expected(case):
    for samples in measured(case):
        ratios = [sample.expectation.tolerance / sample.deviation for sample in samples if sample.deviation]

        assert not ratios or statistics.median(ratios) < LARGEST_MEDIAN
