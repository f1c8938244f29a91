"""Random results are judged by how they are distributed."""

from __future__ import annotations

import pytest
import torch

from torchparity.check.judging import Outcome, judge_distribution

SIZE = 4000


def generator(seed):
    return torch.Generator().manual_seed(seed)


def status(device, reference, zero_share=None, api="Functional.dropout"):
    found = judge_distribution(Outcome(api, "x", device, reference), zero_share=zero_share)
    return str(found.status)


def dropout(p, seed, scale=None):
    kept = torch.rand(SIZE, generator=generator(seed)) >= p
    values = torch.randn(SIZE, generator=generator(12345))
    return values * kept * (1 / (1 - p) if scale is None else scale)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_fair_dropout_passes(p):
    assert {status(dropout(p, seed), dropout(p, 1000 + seed), p) for seed in range(100)} == {"pass"}


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(dropout(0.2, 1, scale=2.0), id="another-p"),
        pytest.param(dropout(0.5, 1, scale=1.0), id="kept-but-not-scaled"),
        pytest.param(torch.zeros(SIZE), id="all-dropped"),
        pytest.param(dropout(0.5, 1) / 0, id="nan"),
        pytest.param(dropout(0.5, 1, scale=2.04), id="kept-and-scaled-a-little-too-much"),
        pytest.param(dropout(0.5, 1).flip(0), id="kept-in-other-places"),
    ],
)
def test_a_wrong_dropout_fails(device):
    assert status(device, dropout(0.5, 2), 0.5) == "error"


def test_zeros_of_the_input_are_no_dropped_ones():
    sparse = (torch.arange(SIZE) % 4 == 0).float()

    assert status(dropout(0.5, 1) * sparse, dropout(0.5, 2) * sparse, 0.5) == "pass"


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        pytest.param(torch.randn(SIZE, generator=generator(1)), "pass", id="the-same"),
        pytest.param(torch.randn(SIZE, generator=generator(1)) + 0.3, "error", id="another-mean"),
        pytest.param(torch.randn(SIZE, generator=generator(1)) * 1.3, "error", id="another-spread"),
        pytest.param(torch.rand(SIZE, generator=generator(1)), "error", id="another-shape"),
        pytest.param(torch.ones(SIZE), "error", id="not-random"),
        pytest.param(torch.ones(3), "error", id="another-size"),
    ],
)
def test_draws_of_a_normal_distribution(device, expected):
    assert status(device, torch.randn(SIZE, generator=generator(2))) == expected


def test_a_few_values_prove_nothing():
    assert status(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 2.0])) == "pass"
    assert status(torch.empty(0), torch.empty(0), 0.5) == "pass"


def test_whole_numbers():
    draw = torch.randint(0, 10, (SIZE,), generator=generator(1))

    assert status(draw, torch.randint(0, 10, (SIZE,), generator=generator(2))) == "pass"
    assert status(draw, torch.randint(0, 12, (SIZE,), generator=generator(2))) == "error"


def test_a_value_that_is_rounded_otherwise_is_the_same_value():
    """alpha_dropout sets what it drops to one constant, which float32 and float64 round differently."""
    reference = torch.full((SIZE,), -1.7580993408473766, dtype=torch.float64)

    assert status(reference.float(), reference, api="Functional.alpha_dropout") == "pass"
    assert status(reference.bfloat16(), reference, api="Functional.alpha_dropout") == "pass"
    assert status(1.1 * reference.float(), reference, api="Functional.alpha_dropout") == "error"


def test_channels_that_are_dropped_whole_are_single_draws():
    """Of 8 channels 2 may well be dropped by one draw and 6 by another; of 4,000 numbers not."""
    few, many = (torch.ones(1, 8, 500) * (torch.arange(8) >= dropped)[:, None] * 2 for dropped in (2, 6))

    assert status(few, many, 0.5, "Functional.dropout1d") == "pass"
    assert status(few, many, 0.5, "Functional.dropout") == "error"


def test_a_draw_of_nan_alone_is_wrong_where_the_reference_has_one():
    reference, device = torch.randn(2, SIZE, generator=generator(1))
    reference[0] = torch.nan
    one_too = device.clone()
    one_too[5] = torch.nan

    assert status(device * torch.nan, reference, api="Torch.normal") == "error"
    assert status(one_too, reference, api="Torch.normal") == "pass"
