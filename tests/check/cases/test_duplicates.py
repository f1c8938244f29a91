"""Calls that differ in their values alone are checked once where asked."""

from __future__ import annotations

import torch

from tests.check.recorded_calls import recorded_cases
from torchparity.check.cases import without_duplicates


def test_the_first_of_equal_forms_stays():
    def work():
        for size in (3, 3, 4):
            torch.exp(torch.randn(size))
        torch.randn(3).sum(0)
        torch.randn(3).sum(0, keepdim=True)

    names = [case.name for case in without_duplicates(recorded_cases(work).values()) if "randn" not in case.name]

    assert names == ["Torch.exp.0", "Torch.exp.2", "Tensor.sum.0", "Tensor.sum.1"]
