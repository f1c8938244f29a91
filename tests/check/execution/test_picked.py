"""Indices of equal values: any order of theirs is right, and nothing else is."""

from __future__ import annotations

import pytest
import torch

from torchparity.check.cases import Arguments, Input
from torchparity.check.execution import picking
from torchparity.check.judging import Outcome, judge

TIED = torch.randn(8000, generator=torch.Generator().manual_seed(0)).bfloat16()


def status(operator, values, right, found, *args, output="0", **kwargs):
    arguments = Arguments([Input("0", values, False), *args], kwargs, True)
    pick = picking(operator, arguments, output)
    api = f"Torch.{operator}"
    return str(judge(Outcome(api, f"{api}.0.forward.output.{output}", found, right, pick=pick)).status)


def in_another_order(values):
    """Return a right argsort that has the equal values the other way round."""
    return (len(values) - 1 - values.flip(0).argsort(stable=True)).contiguous()


def test_equal_values_may_be_sorted_in_any_order():
    right, found = TIED.argsort(stable=True), in_another_order(TIED)

    assert (right != found).sum() > 1000
    assert status("argsort", TIED, right, found) == "pass"
    assert status("sort", TIED, right, found, output="1") == "pass"


def test_a_stable_sort_has_one_order():
    right, found = TIED.argsort(stable=True), in_another_order(TIED)

    assert status("argsort", TIED, right, found, stable=True) == "error"


def test_an_element_that_is_chosen_twice_or_out_of_place_is_wrong():
    right = TIED.argsort(stable=True)
    twice, elsewhere = right.clone(), right.roll(1)
    tie = int((TIED[right].diff() == 0).nonzero()[0])
    twice[tie] = twice[tie + 1]

    assert status("argsort", TIED, right, twice) == "error"
    assert status("argsort", TIED, right, elsewhere) == "error"
    assert status("argsort", TIED, right, right + 8000) == "error"


@pytest.mark.parametrize(
    ("operator", "args", "right", "found", "expected"),
    [
        pytest.param("argmax", (), torch.tensor(1), torch.tensor(2), "pass", id="of-all"),
        pytest.param("argmax", (1,), torch.tensor([1, 1]), torch.tensor([2, 1]), "pass", id="by-row"),
        pytest.param("argmax", (1, True), torch.tensor([[1], [1]]), torch.tensor([[2], [1]]), "pass", id="kept"),
        pytest.param("argmax", (1,), torch.tensor([1, 1]), torch.tensor([0, 1]), "error", id="a-smaller-one"),
        pytest.param("argmax", (0,), torch.tensor([0, 0, 0]), torch.tensor([1, 0, 0]), "error", id="by-column"),
    ],
)
def test_the_largest_of_equals_is_any_of_them(operator, args, right, found, expected):
    values = torch.tensor([[1.0, 5.0, 5.0], [0.0, 3.0, 2.0]])

    assert status(operator, values, right, found, *args) == expected


def test_topk_chooses_along_its_dimension():
    values = torch.tensor([[1.0, 5.0], [5.0, 5.0], [5.0, 1.0]])
    right, found = torch.tensor([[1, 0], [2, 1]]), torch.tensor([[2, 1], [1, 0]])

    assert status("topk", values, right, found, 2, 0, output="1") == "pass"
    assert status("topk", values, right, torch.tensor([[1, 0], [0, 1]]), 2, 0, output="1") == "error"
