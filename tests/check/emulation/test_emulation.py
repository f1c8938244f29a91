"""Emulated rounding: it excuses what a dtype does, and no wrong kernel."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import torch.nn.functional as F

from torchparity.check.emulation import RoundedResults, moved
from torchparity.check.judging import Outcome, join, judge

WIDE = {torch.float32: torch.float64, torch.bfloat16: torch.float32, torch.float16: torch.float32}
DTYPES = pytest.mark.parametrize("dtype", WIDE, ids=str)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def results(function, inputs):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    gradient = normal(*output.shape, seed=9).to(inputs[0].dtype)
    return [output.detach(), *torch.autograd.grad(output, leaves, gradient)]


def status(api, function, inputs, dtype, kernel=None):
    """Check a function as the CPU computes it, or as a wrong kernel does, against higher precision."""
    inputs = [tensor.to(dtype) for tensor in inputs]
    wide = [tensor.to(WIDE[dtype]) for tensor in inputs]
    reference = results(function, wide)

    @cache
    def emulated(number):
        away = [moved(tensor, dtype, number, api) for tensor in wide]
        with RoundedResults(dtype, number):
            return results(function, away)

    found = results(kernel or function, inputs)
    judged = [
        judge(Outcome(api, f"{api}.{place}", one, right, None, lambda number, place=place: emulated(number)[place]))
        for place, (one, right) in enumerate(zip(found, reference, strict=True))
    ]
    return str(join(judgement.status for judgement in judged))


SQUARE = normal(48, 48)
RIGHT = {
    "Functional.linear": (F.linear, [SQUARE, normal(48, 48, seed=1)]),
    "Functional.gelu": (F.gelu, [3 * SQUARE]),
    "Torch.tanh": (torch.tanh, [4 * SQUARE]),
    "Torch.log_softmax": (lambda x: x.log_softmax(-1), [SQUARE]),
    "Functional.cross_entropy": (lambda x: F.cross_entropy(x, torch.arange(48)), [SQUARE]),
    "Functional.layer_norm": (lambda x: F.layer_norm(x, (48,)), [SQUARE]),
    "Functional.batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), [SQUARE]),
    "Torch.sum": (torch.sum, [SQUARE]),
    "Torch.mean": (lambda x: x.mean(0), [SQUARE]),
    "Torch.sin": (torch.sin, [1e5 * SQUARE]),
    "Torch.var": (lambda x: x.var(-1), [SQUARE + 100]),
    "Functional.cosine_similarity": (F.cosine_similarity, [SQUARE, normal(48, 48, seed=1)]),
    "Functional.conv2d": (F.conv2d, [normal(2, 4, 9, 9), normal(4, 4, 3, 3, seed=1)]),
    "Functional.scaled_dot_product_attention": (
        F.scaled_dot_product_attention,
        [normal(2, 2, 8, 16, seed=seed) for seed in range(3)],
    ),
}


@DTYPES
@pytest.mark.parametrize("api", RIGHT)
def test_what_the_cpu_computes_passes(api, dtype):
    function, inputs = RIGHT[api]

    assert status(api, function, inputs, dtype) == "pass"


@DTYPES
def test_a_loss_that_is_nearly_certain_passes(dtype):
    """The gradient subtracts 1 from a probability of nearly 1."""
    certain = [torch.tensor([[7.5, 0.1], [0.2, 8.0]])]

    assert status("Functional.cross_entropy", lambda x: F.cross_entropy(x, torch.arange(2)), certain, dtype) == "pass"


@DTYPES
def test_a_distance_of_nothing_is_allowed_an_error_and_others_are_not(dtype):
    """cdist subtracts squares: of the distance from a point to itself half of the digits are lost."""
    assert status("Torch.cdist", lambda x: torch.cdist(x, x), [SQUARE], dtype) == "pass"
    wrong = status("Torch.cdist", lambda x: torch.cdist(x, x), [SQUARE], dtype, lambda x: 1.1 * torch.cdist(x, x))
    assert wrong == "error"


@pytest.mark.parametrize("api", ["inv", "det", "svdvals", "eigvalsh"])
def test_ill_conditioned_algebra_passes(api):
    assert status(f"Torch.linalg.{api}", getattr(torch.linalg, api), [SQUARE], torch.float32) == "pass"


def accumulates_in_bfloat16(left, right):
    total = torch.zeros(left.shape[0], right.shape[0], dtype=torch.bfloat16)
    for column in range(left.shape[1]):
        total = total + (left[:, column, None] * right[None, :, column]).bfloat16()
    return total.to(left.dtype)


def convolves_in_bfloat16(images, kernel, bias):
    windows = F.unfold(images, 3).transpose(1, 2)
    total = accumulates_in_bfloat16(windows.flatten(0, 1), kernel.flatten(1)).reshape(len(images), -1, len(kernel))
    return total.transpose(1, 2).reshape(len(images), len(kernel), 7, 7) + bias[:, None, None]


def adds_the_bias_to_a_rounded_convolution(images, kernel, bias):
    return F.conv2d(images, kernel) + bias[:, None, None]


def softmax_of_large(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sigmoid()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y * y


WRONG = {
    "softmax-of-large": ("Functional.softmax", lambda x: x.softmax(-1), [100 * SQUARE], softmax_of_large),
    "gelu-by-tanh": ("Functional.gelu", F.gelu, [SQUARE], lambda x: F.gelu(x, approximate="tanh")),
    "convolution": (
        "Functional.conv2d",
        F.conv2d,
        [normal(2, 8, 9, 9), normal(4, 8, 3, 3, seed=1), normal(4, seed=2)],
        convolves_in_bfloat16,
    ),
    "matmul": ("Functional.linear", F.linear, RIGHT["Functional.linear"][1], accumulates_in_bfloat16),
    "layer-norm-epsilon": (
        "Functional.layer_norm",
        lambda x: F.layer_norm(x, (48,)),
        [0.05 * SQUARE],
        lambda x: F.layer_norm(x, (48,), eps=1e-3),
    ),
    "gradient": ("Torch.sigmoid", torch.sigmoid, [SQUARE], WrongGradient.apply),
}


@DTYPES
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_kernel_fails(fault, dtype):
    api, function, inputs, kernel = WRONG[fault]

    assert status(api, function, inputs, dtype, kernel) == "error"


@DTYPES
def test_a_bias_that_is_added_to_a_rounded_convolution_passes(dtype):
    """cuDNN does so: what cancels with the bias shows the rounding of what was there before."""
    inputs = [normal(2, 4, 9, 9), normal(4, 4, 3, 3, seed=1) / 6, normal(4, seed=2)]

    assert status("Functional.conv2d", F.conv2d, inputs, dtype, adds_the_bias_to_a_rounded_convolution) == "pass"


@pytest.mark.parametrize(
    ("dtype", "epsilon", "expected"),
    [(torch.bfloat16, 1e-3, "warning"), (torch.float16, 3e-4, "warning"), (torch.float16, 2e-3, "error")],
    ids=str,
)
def test_a_wrong_constant_below_the_precision_of_an_element_is_noticed(dtype, epsilon, expected):
    """An epsilon of 1e-3 makes results of variance 1 by 0.05 % smaller: an eighth of a bfloat16's last place."""
    right, inputs = RIGHT["Functional.layer_norm"]

    found = status("Functional.layer_norm", right, inputs, dtype, lambda x: F.layer_norm(x, (48,), eps=epsilon))
    assert found == expected


def test_every_result_is_rounded_and_kept_in_its_dtype():
    with RoundedResults(torch.bfloat16, 0):
        total = torch.full((3,), 1.0) + 2.0**-9
        product = torch.full((3,), 1.0).mul_(1 + 2.0**-9)

    assert (total.dtype, total.tolist(), product.tolist()) == (torch.float32, [1.0] * 3, [1.0] * 3)


def test_views_and_copies_are_left_as_they_are():
    exact = torch.full((2, 2), 1 + 2.0**-20)

    with RoundedResults(torch.float16, 1):
        seen = [exact.t(), exact[0], exact.clone(), exact.expand(3, 2, 2)]

    assert all((tensor == 1 + 2.0**-20).all() for tensor in seen)


def test_samples_differ_and_repeat():
    def sample(number):
        with RoundedResults(torch.float16, number):
            return (normal(100) * 3).sum(0, keepdim=True) + normal(100)

    assert sample(1).equal(sample(1))
    assert not sample(1).equal(sample(2))


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 2**-22), (torch.bfloat16, 2**-19)])
def test_inputs_are_moved_by_little_towards_zero(dtype, most):
    numbers = torch.tensor([0.0, 1.0, -1.0, 1e30, 5.0], dtype=WIDE[dtype])

    away = moved(numbers, dtype, 0, "Torch.exp")

    assert away[0] == 0
    assert ((away.abs() <= numbers.abs()) & ((away - numbers).abs() <= most * numbers.abs())).all()
    assert not away.equal(numbers)
    assert moved(torch.arange(3), dtype, 0, "Torch.exp").equal(torch.arange(3))


def test_two_inputs_of_one_shape_are_moved_apart():
    """Moved alike, a difference of two would show nothing of what cancels."""
    left, right = normal(100).double(), normal(100, seed=1).double()

    shares = [(moved(tensor, torch.float32, 0, "Torch.sub") / tensor - 1) * 2**22 for tensor in (left, right)]

    assert (shares[0] - shares[1]).abs().max() > 0.1
    assert moved(left, torch.float32, 0, "Torch.sub").equal(moved(left, torch.float32, 0, "Torch.sub"))
    assert not moved(left, torch.float32, 0, "Torch.sub").equal(moved(left, torch.float32, 1, "Torch.sub"))


def test_the_generator_of_the_user_is_not_drawn_from():
    before = torch.get_rng_state()

    with RoundedResults(torch.float16, 3):
        moved(torch.ones(5), torch.float16, 3, "Torch.exp").exp()

    assert torch.get_rng_state().equal(before)
