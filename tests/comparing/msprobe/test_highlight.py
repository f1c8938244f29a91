"""Colours of rows: the rules of seed 3, section 3.3, that golden tables do not show."""

from __future__ import annotations

import pytest

from torchparity.comparing import ItemComparison
from torchparity.comparing.msprobe.highlight import highlights
from torchparity.comparing.pairing.items import ItemPair, Side
from torchparity.records import PairMetrics, Statistics, TensorLeaf

APPEARS = "The output's maximum relative error exceeds 0.1, while the input/parameter's is below 0.01"


def compared(role, max_relative):
    leaf = TensorLeaf(
        dtype="torch.float32", shape=(4,), statistics=Statistics(max=1.0, min=0.5, mean=0.7, norm=2.0), data_name="a.pt"
    )
    side = Side(f"Torch.exp.0.forward.{role}.0", leaf)
    metrics = PairMetrics(
        count=4, cosine=1.0, euclidean=0.0, max_abs=0.0, max_relative=max_relative, within_1e3=1.0, within_5e3=1.0,
        mismatched=0, candidate_is_zero=False, baseline_is_zero=False, has_nonfinite=False,
    )  # fmt: skip
    return ItemComparison(ItemPair("Torch.exp.0.forward", role, "forward", side, side), metrics, 0.0)


@pytest.mark.parametrize(
    ("inputs", "output", "is_yellow"),
    [([0.001], 0.2, True), ([0.001, 0.02], 0.2, False), ([0.02], 0.2, False), ([0.001], 0.05, False), ([], 0.2, False)],
)
def test_a_relative_error_that_appears_in_real_data_is_yellow(inputs, output, is_yellow):
    items = [*(compared("input", error) for error in inputs), compared("output", output)]

    *received, last = highlights(items, "values")

    assert [mark.colour for mark in received] == [None] * len(inputs)
    assert (last.colour, last.reasons) == (("yellow", (APPEARS,)) if is_yellow else (None, ()))
