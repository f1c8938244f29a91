"""Normal and abnormal: the result that a device gave against the true one."""

from __future__ import annotations

import math

import pytest
import torch

from torchparity.overflow.verdict import Verdict, joined, judge
from torchparity.overflow.wording import detail, headline

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("seen", "truth", "verdict", "count", "first"),
    [
        pytest.param([1.0, INF], [1.0, 9e4], Verdict.NORMAL, 1, (1,), id="too-large-for-the-dtype"),
        pytest.param([-INF, 1.0], [-9e4, 1.0], Verdict.NORMAL, 1, (0,), id="too-small-for-the-dtype"),
        pytest.param([1.0, INF], [1.0, 800.0], Verdict.ABNORMAL, 1, (1,), id="the-truth-fits"),
        pytest.param([NAN, 1.0], [NAN, 1.0], Verdict.NORMAL, 1, (0,), id="no-number-by-definition"),
        pytest.param([NAN, 1.0], [0.0, 1.0], Verdict.ABNORMAL, 1, (0,), id="nan-from-nowhere"),
        pytest.param([INF, INF, NAN], [INF, 9e4, 1.0], Verdict.ABNORMAL, 1, (2,), id="one-of-three-fits"),
        pytest.param([INF, 1.0], [65500.0, 1.0], Verdict.NORMAL, 1, (0,), id="over-the-edge-by-rounding"),
        pytest.param([2.0, 1.0], [2.0, 1.0], Verdict.NONE, 0, None, id="no-overflow"),
        pytest.param([65504.0, 1.0], [9e4, 1.0], Verdict.NONE, 0, None, id="saturated-without-a-flag"),
    ],
)
def test_an_overflow_is_normal_where_the_truth_leaves_the_range(seen, truth, verdict, count, first):
    finding = judge("output.0", torch.tensor(seen).half(), torch.tensor(truth, dtype=torch.float64), is_flagged=False)

    assert (finding.verdict, finding.count, finding.first) == (verdict, count, first)
    assert (finding.total, finding.limit) == (len(seen), 65504.0)


@pytest.mark.parametrize(
    ("seen", "truth", "verdict", "first"),
    [
        pytest.param([1.0, 65504.0], [1.0, 9e4], Verdict.NORMAL, (1,), id="clamped-where-it-must"),
        pytest.param([1.0, 50.0], [1.0, 80.0], Verdict.ABNORMAL, (1,), id="clamped-where-it-fits"),
    ],
)
def test_a_flag_stands_for_infinities_that_a_device_does_not_give(seen, truth, verdict, first):
    finding = judge("output.0", torch.tensor(seen).half(), torch.tensor(truth, dtype=torch.float64), is_flagged=True)

    assert (finding.verdict, finding.first, finding.is_saturated) == (verdict, first, True)


def test_a_flag_that_no_element_explains_is_abnormal():
    finding = judge("output.0", torch.ones(2).half(), torch.ones(2).double(), is_flagged=True)

    assert joined([finding], is_flagged=True) is Verdict.ABNORMAL
    assert joined([finding], is_flagged=False) is Verdict.NONE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_every_dtype_has_its_own_range(dtype):
    limit = torch.finfo(dtype).max
    seen = torch.tensor([[1.0, INF]], dtype=dtype)
    wider = torch.complex128 if dtype.is_complex else torch.float64
    fits = judge("output.0", seen, torch.tensor([[1.0, limit / 4]], dtype=wider), is_flagged=False)
    leaves = judge("output.0", seen, torch.tensor([[1.0, INF]], dtype=wider), is_flagged=False)

    assert (fits.verdict, leaves.verdict) == (Verdict.ABNORMAL, Verdict.NORMAL)
    assert fits.first == leaves.first == (0, 1)


def test_whole_numbers_and_other_shapes_are_not_judged():
    assert judge("output.0", torch.ones(2, dtype=torch.int64), torch.ones(2).double(), is_flagged=False) is None
    assert judge("output.0", torch.ones(2), torch.ones(3).double(), is_flagged=False) is None


@pytest.mark.parametrize(
    ("seen", "truth", "said"),
    [
        (
            [1.0, INF],
            [1.0, 131008.0],
            "1 of 2 elements not finite, the first at [1]; the largest true value is 1.31e+05, "
            "2 times the largest float16 (65504); bfloat16 or float32 hold it",
        ),
        ([1.0, INF], [1.0, 1e39], "float64 holds it"),
        (
            [1.0, INF],
            [1.0, 655.04],
            "although their true values fit, the first at [1]; the largest true value is 655, "
            "with a head-room of 100 to the largest float16 (65504)",
        ),
        ([INF, 1.0], [INF, 1.0], "in float64 they are not finite either"),
        ([NAN, NAN], [0.0, 0.0], "the true values are zero"),
    ],
)
def test_the_words_say_how_far_the_truth_is_from_the_limit(seen, truth, said):
    finding = judge("output.0", torch.tensor(seen).half(), torch.tensor(truth, dtype=torch.float64), is_flagged=False)

    assert said in detail(finding)


def test_the_verdicts_have_the_words_of_run_overflow_check():
    assert headline("Torch.mul.0", Verdict.NORMAL) == "The Torch.mul.0 overflow is a normal overflow."
    assert headline("Torch.mul.0", Verdict.ABNORMAL) == "The Torch.mul.0 overflow is an abnormal overflow."
