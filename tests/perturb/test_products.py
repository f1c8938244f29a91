"""Products of halves on CUDA: computed with sums in float32 by a shorter way than raising both factors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.support.perturbing import perturbing, product_in_bfloat16, rows_in, wrong_kernel
from torchparity.perturb.raised_products import shorter_way

PRODUCTS = {
    "linear": (F.linear, [(3, 100, 70), (50, 70)]),
    "linear with bias": (F.linear, [(130, 70), (50, 70), (50,)]),
    "matrix": (torch.matmul, [(130, 70), (70, 50)]),
    "method": (torch.Tensor.matmul, [(2, 3, 100, 70), (70, 50)]),
    "stacks": (torch.matmul, [(2, 3, 100, 70), (2, 3, 70, 50)]),
    "mm": (torch.mm, [(130, 70), (70, 50)]),
    "bmm": (torch.bmm, [(4, 100, 70), (4, 70, 50)]),
    "addmm": (torch.addmm, [(50,), (130, 70), (70, 50)]),
    "baddbmm": (torch.baddbmm, [(100, 1), (4, 100, 70), (4, 70, 50)]),
}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PRODUCTS)
def test_the_shorter_way_is_as_close_to_the_truth_as_float32(name, dtype, cuda):
    function, shapes = PRODUCTS[name]
    factors = [torch.randn(shape, device=cuda).to(dtype) for shape in shapes]

    product = shorter_way(function, factors, {})(*factors)

    assert product.dtype is torch.float32
    torch.testing.assert_close(product.double(), function(*(each.double() for each in factors)), rtol=1e-5, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param((8, 70), (70, 50), id="few-rows"),
        pytest.param((70,), (70, 50), id="a-vector"),
        pytest.param((100, 70), (4, 70, 50), id="spread-over-stacks"),
    ],
)
def test_others_are_raised(left, right, cuda):
    factors = [torch.randn(shape, device=cuda).bfloat16() for shape in (left, right)]

    assert shorter_way(torch.matmul, factors, {})(*factors) is None


def test_the_host_raises_both():
    factors = [torch.ones(shape, dtype=torch.bfloat16) for shape in ((100, 70), (70, 50))]

    assert shorter_way(torch.matmul, factors, {}) is None


@pytest.mark.gpu
def test_what_says_how_to_multiply_is_not_left_out(cuda):
    left, right = torch.ones(100, 70, device=cuda), torch.ones(70, 50, device=cuda)

    assert shorter_way(torch.matmul, [left, right], {}) is not None
    assert shorter_way(torch.matmul, [left, right], {"out": torch.empty(100, 50, device=cuda)}) is None
    assert shorter_way(torch.addmm, [right, left, right], {"alpha": 2}) is None
    assert shorter_way(torch.mul, [left, left], {}) is None
    assert shorter_way(lambda left, right: left @ right, [left, right], {}) is None


def rows_of_a_product(folder, left, right):
    with perturbing(folder, pert_mode="improve_precision"):
        torch.matmul(left, right)
    return [row["api_name"] for row in rows_in(folder)]


@pytest.mark.gpu
def test_a_product_that_is_summed_in_bfloat16_is_found(cuda, tmp_path):
    left, right = (torch.rand(shape, device=cuda).bfloat16() for shape in ((256, 512), (512, 128)))

    sound = rows_of_a_product(tmp_path / "sound", left, right)
    with wrong_kernel("mm", product_in_bfloat16, "CUDA"):
        wrong = rows_of_a_product(tmp_path / "wrong", left, right)

    assert (sound, wrong) == ([], ["Torch.matmul.0.forward"])


@pytest.mark.gpu
def test_a_wrong_kernel_that_the_shorter_way_shares_does_not_hide(cuda, tmp_path):
    left, right = (torch.rand(shape, device=cuda).bfloat16() for shape in ((256, 512), (512, 128)))

    def shared(left, right, out_dtype):
        return product_in_bfloat16(left, right).to(out_dtype)

    with wrong_kernel("mm", product_in_bfloat16, "CUDA"), wrong_kernel("mm.dtype", shared, "CUDA"):
        found = rows_of_a_product(tmp_path, left, right)

    assert found == ["Torch.matmul.0.forward"]
