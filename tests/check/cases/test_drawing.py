"""Tensors drawn from statistics: within their range, as often zero or infinite, the same everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.support.runs import leaf_of
from torchparity.check.cases import CannotRun, Draws
from torchparity.check.cases.drawing import drawn
from torchparity.records import Statistics, TensorLeaf
from torchparity.tensors.torch_tensors import from_torch


def leaf(values: torch.Tensor) -> TensorLeaf:
    return leaf_of(from_torch(values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_floats_have_the_recorded_ends_and_lie_between(dtype):
    recorded = torch.randn(200).to(dtype)

    made = drawn(leaf(recorded), Draws("Functional.gelu.0.forward.input.0"))

    assert made.dtype == dtype and made.shape == recorded.shape
    assert (made.min(), made.max()) == (recorded.min(), recorded.max())
    assert made.double().norm() == pytest.approx(float(recorded.double().norm()), rel=0.3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8])
def test_whole_numbers_lie_between_the_recorded_ends(dtype):
    recorded = torch.arange(3, 90, dtype=dtype)

    made = drawn(leaf(recorded), Draws("a"))

    assert made.dtype == dtype
    assert made.min() >= 3 and made.max() <= 89


def test_int64_keeps_its_whole_range():
    ends = torch.tensor([-(2**63), 2**63 - 1])

    made = drawn(leaf(ends), Draws("a"), shape=(1000,))

    assert made.min() < -(2**61) and made.max() > 2**61


def test_zeros_nan_and_infinities_occur_as_often_as_they_were_counted():
    recorded = torch.tensor([0.0, 0.0, math.nan, math.inf, -math.inf, -math.inf, 2.0, 3.0, 4.0, 5.0])

    made = drawn(leaf(recorded), Draws("a"))

    assert (made == 0).sum() == 2 and made.isnan().sum() == 1
    assert (made == math.inf).sum() == 1 and (made == -math.inf).sum() == 2


def test_a_tensor_of_nothing_but_nan_is_drawn_as_such():
    assert drawn(leaf(torch.full((4,), math.nan)), Draws("a")).isnan().all()


def test_booleans_are_true_as_often_as_they_were():
    recorded = torch.tensor([True, False, False, False])

    assert drawn(leaf(recorded), Draws("a")).sum() == 1


def test_complex_numbers_have_about_the_recorded_norm():
    recorded = torch.randn(500, dtype=torch.complex64)

    assert drawn(leaf(recorded), Draws("a")).norm() == pytest.approx(float(recorded.norm()), rel=0.2)


def test_the_name_is_the_seed():
    shape = leaf(torch.randn(16))

    assert torch.equal(drawn(shape, Draws("a")), drawn(shape, Draws("a")))
    assert not torch.equal(drawn(shape, Draws("a")), drawn(shape, Draws("b")))


def test_the_numbers_are_those_of_the_published_philox():
    # Salmon et al., Random123: philox4x64 with counter and key zero begins with these words.
    key = np.random.Philox(key=0, counter=np.array([2**64 - 1] * 4, dtype=np.uint64))

    assert [hex(word) for word in key.random_raw(2)] == ["0x16554d9eca36314c", "0xdb20fe9d672d0fdc"]


def test_nan_that_was_not_counted_needs_real_data():
    shape = TensorLeaf(dtype="torch.float32", shape=(3,), statistics=Statistics(math.nan, math.nan, math.nan, math.nan))

    with pytest.raises(CannotRun, match="task tensor"):
        drawn(shape, Draws("a"))


def test_a_dtype_that_torch_lacks_is_named():
    with pytest.raises(CannotRun, match=r"no dtype torch\.float7"):
        drawn(TensorLeaf(dtype="torch.float7", shape=(1,)), Draws("a"))


def test_no_elements_need_no_statistics():
    assert drawn(TensorLeaf(dtype="torch.float32", shape=(0, 3)), Draws("a")).shape == (0, 3)
