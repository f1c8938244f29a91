"""Random results are judged by how they are distributed."""

from __future__ import annotations

import pytest
import torch

from torchparity.check.judging import Outcome, judge_distribution

SIZE = 4000


def generator(seed):
    return torch.Generator().manual_seed(seed)


def status(device, reference, zero_share=None):
    found = judge_distribution(Outcome("Functional.dropout", "x", device, reference), zero_share=zero_share)
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
