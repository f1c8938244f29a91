"""Significant bits against a truth of their own in float64; ill-conditioned APIs told from wrong kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.perturbing import perturbing, product_in_bfloat16, rows_in, wrong_kernel
from torchparity import PrecisionDebugger

N = 24


def values(*shape, low=-2.0, high=2.0, seed=0):
    return low + (high - low) * torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def hilbert(size):
    return torch.tensor([[1 / (row + column + 1) for column in range(size)] for row in range(size)])


X, Y, POSITIVE, MATRIX = values(N, N), values(N, N, seed=1), values(N, N, low=0.1), values(N, N, seed=2)
SPD = MATRIX @ MATRIX.T + torch.eye(N)
IMAGE, FILTER = values(2, 3, 8, 8), values(4, 3, 3, 3, seed=3)
NEAR = X * (1 + 1e-4 * Y)  # a difference from X has few bits left
APIS = {
    "exp": (torch.exp, X),
    "expm1": (torch.expm1, X),
    "log": (torch.log, POSITIVE),
    "log1p": (torch.log1p, POSITIVE),
    "log2": (torch.log2, POSITIVE),
    "sin": (torch.sin, X * 50),
    "cos": (torch.cos, X),
    "tan": (torch.tan, X),
    "atan": (torch.atan, X),
    "asin": (torch.asin, X / 3),
    "sinh": (torch.sinh, X),
    "cosh": (torch.cosh, X),
    "tanh": (torch.tanh, X),
    "sigmoid": (torch.sigmoid, X),
    "sqrt": (torch.sqrt, POSITIVE),
    "rsqrt": (torch.rsqrt, POSITIVE),
    "reciprocal": (torch.reciprocal, X),
    "square": (torch.square, X),
    "pow": (torch.pow, POSITIVE, 7),
    "erf": (torch.erf, X),
    "erfc": (torch.erfc, X),
    "lgamma": (torch.lgamma, POSITIVE),
    "digamma": (torch.digamma, POSITIVE),
    "softplus": (F.softplus, X),
    "gelu": (F.gelu, X),
    "silu": (F.silu, X),
    "elu": (F.elu, X),
    "add": (torch.add, X, Y),
    "sub": (torch.sub, X, NEAR),
    "mul": (torch.mul, X, Y),
    "div": (torch.div, X, POSITIVE),
    "atan2": (torch.atan2, X, Y),
    "hypot": (torch.hypot, X, Y),
    "matmul": (torch.matmul, X, Y),
    "addmm": (torch.addmm, X, Y, MATRIX),
    "linear": (F.linear, X, Y, values(N)),
    "conv2d": (F.conv2d, IMAGE, FILTER),
    "avg_pool2d": (F.avg_pool2d, IMAGE, 2),
    "interpolate": (lambda image: F.interpolate(image, scale_factor=2, mode="bilinear"), IMAGE),
    "softmax": (F.softmax, X * 5, -1),
    "log_softmax": (F.log_softmax, X, -1),
    "layer_norm": (F.layer_norm, X, (N,)),
    "group_norm": (F.group_norm, IMAGE[:, :2], 2),
    "normalize": (F.normalize, X),
    "cosine_similarity": (F.cosine_similarity, X, Y),
    "sum": (torch.sum, X, -1),
    "mean": (torch.mean, X, -1),
    "var": (torch.var, X + 100, -1),
    "std": (torch.std, X, -1),
    "logsumexp": (torch.logsumexp, X, -1),
    "prod": (torch.prod, POSITIVE, -1),
    "cumsum": (torch.cumsum, X, -1),
    "solve": (torch.linalg.solve, MATRIX, X),
    "inv": (torch.linalg.inv, SPD),
    "det": (torch.linalg.det, SPD / 10),
    "cholesky": (torch.linalg.cholesky, SPD),
    "svdvals": (torch.linalg.svdvals, MATRIX),
    "mse_loss": (F.mse_loss, X, Y),
    "cdist": (torch.cdist, X, Y),
}


def relative(left, right):
    return (torch.linalg.vector_norm(left.double() - right) / torch.linalg.vector_norm(right)).item()


def true_bits(function, *arguments, runs=40):
    """Return the bits that a result in float32 has, where its inputs are known to their last bit."""
    draw = np.random.default_rng(1)

    def in_float64(move):
        return function(*(move(each).double() if isinstance(each, torch.Tensor) else each for each in arguments))

    def moved(tensor):
        side = np.where(draw.random(tensor.shape) < 0.5, -np.inf, np.inf).astype(np.float32)
        return torch.from_numpy(np.nextafter(tensor.numpy(), side))

    truth = in_float64(lambda tensor: tensor)
    own_error = relative(function(*arguments), truth)
    follows = math.sqrt(sum(relative(in_float64(moved), truth) ** 2 for _ in range(runs)) / runs)
    return min(24.0, max(0.0, -math.log2(math.hypot(own_error, follows))))


def measured(folder, function, *arguments, runs=10):
    """Return the row of one call's API."""
    with perturbing(folder, significance=runs):
        function(*arguments)
    return next(row for row in rows_in(folder, "significance.csv") if row["kind"] == "api")


def test_bits_are_right_within_two_for_nearly_every_api(tmp_path):
    far = {}
    for name, (function, *arguments) in APIS.items():
        row = measured(tmp_path / name, function, *arguments)
        difference = float(row["bits"]) - true_bits(function, *arguments)
        assert row["verdict"] in ("sound", "ill-conditioned"), (name, row)
        if abs(difference) > 2:
            far[name] = difference

    assert len(APIS) >= 50
    assert len(far) <= len(APIS) * 0.05, far


@pytest.mark.parametrize("size", [6, 8, 10])
def test_a_hilbert_matrix_is_ill_conditioned_and_its_solver_not_wrong(size, tmp_path):
    matrix = hilbert(size)

    row = measured(tmp_path, torch.linalg.solve, matrix, torch.ones(size))

    assert row["verdict"] == "ill-conditioned"
    assert float(row["bits"]) < 6
    assert float(row["condition"]) > 1e4


def rough_tanh(tensor):
    """Return a tangent of three digits, but in float64."""
    if tensor.dtype is torch.float64:
        return 1 - 2 / (torch.exp(2 * tensor) + 1)
    return tensor * (27 + tensor**2) / (27 + 9 * tensor**2)


def test_a_kernel_that_errs_more_than_its_condition_explains_is_wrong(tmp_path):
    left, right = X.bfloat16(), Y.bfloat16()
    sound = measured(tmp_path / "sound", torch.matmul, left, right)
    with wrong_kernel("tanh", rough_tanh):
        wrong = measured(tmp_path / "wrong", torch.tanh, X)

    assert (sound["verdict"], sound["precision"]) == ("sound", "8")
    assert wrong["verdict"] == "wrong"
    assert float(wrong["condition"]) < 10


def symmetric(order):
    matrix = values(order, order)
    return matrix + matrix.T


@pytest.mark.parametrize("function", [torch.linalg.eigvalsh, torch.linalg.inv, torch.linalg.matrix_exp])
@pytest.mark.parametrize("order", [64, 256])
def test_a_sound_algorithm_on_a_large_matrix_is_not_wrong(function, order, tmp_path):
    assert measured(tmp_path, function, symmetric(order) / order**0.5)["verdict"] in ("sound", "ill-conditioned")


def test_an_algorithm_on_a_matrix_that_keeps_four_digits_is_wrong(tmp_path):
    def rough(matrix, UPLO="L"):
        eigenvalues = torch.linalg.eigh(matrix).eigenvalues
        return eigenvalues * (1 if matrix.dtype is torch.float64 else 1 + 1e-4)

    with wrong_kernel("linalg_eigvalsh", rough):
        row = measured(tmp_path, torch.linalg.eigvalsh, symmetric(256))

    assert row["verdict"] == "wrong"


def test_results_whose_shape_depends_on_the_last_bits_are_left_out_and_nobody_raised(tmp_path, capsys):
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=tmp_path, significance=4)
    debugger.start()
    torch.unique(values(50).round())
    debugger.stop()
    debugger.step()
    debugger.close()

    said = capsys.readouterr().out
    assert "for other inputs its results have other shapes" in said and "raised" not in said


def test_the_closing_line_tells_how_far_a_wrong_kernel_is_off(tmp_path, capsys):
    with wrong_kernel("tanh", rough_tanh):
        row = measured(tmp_path, torch.tanh, X)

    said = capsys.readouterr().out
    assert f"worst: Torch.tanh: wrong, {float(row['error']):.3g} off from float64, where its condition and" in said
    assert "bits are significant" not in said


def test_an_api_that_varies_from_call_to_call_is_not_called_ill_conditioned(tmp_path):
    calls = iter(range(1000))

    with wrong_kernel("exp", lambda values: values.exp2() * (1 + 1e-3 * (next(calls) % 3))):
        row = measured(tmp_path, torch.exp, X)

    assert row["verdict"] == "not deterministic"


def test_the_worst_of_all_steps_is_named(tmp_path, capsys):
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=tmp_path, significance=4)
    for function, *arguments in ((torch.exp, X), (torch.sub, X, NEAR)):
        debugger.start()
        function(*arguments)
        debugger.stop()
        debugger.step()
    PrecisionDebugger.close()

    assert "worst: Torch.sub: " in capsys.readouterr().out


def test_a_long_product_summed_in_bfloat16_is_wrong(tmp_path):
    left, right = (values(4, 2000, low=0.0, seed=seed).bfloat16() for seed in (1, 2))

    with wrong_kernel("mm", product_in_bfloat16):
        row = measured(tmp_path, torch.matmul, left, right.T)

    assert row["verdict"] == "wrong"


def test_a_product_of_numbers_of_either_sign_summed_in_bfloat16_is_wrong(tmp_path):
    left, right = (values(8, 4096, low=-1.0, seed=seed).bfloat16() for seed in (1, 2))

    with wrong_kernel("mm", product_in_bfloat16):
        wrong = measured(tmp_path / "wrong", torch.matmul, left, right.T)
    sound = measured(tmp_path / "sound", torch.matmul, left, right.T)

    assert (wrong["verdict"], sound["verdict"]) == ("wrong", "sound")


def test_numbers_too_small_for_their_dtype_are_not_wrong(tmp_path):
    moments = torch.zeros(64, dtype=torch.float16)
    gradients = values(64, low=1e-4, high=3e-3, seed=3).half()

    with perturbing(tmp_path, significance=4):
        moments.addcmul_(gradients, gradients, value=0.001)  # 1e-11 to 9e-9, where the least of float16 is 6e-8
        moments.addcmul_(gradients, gradients, value=0.1)

    rows = [row for row in rows_in(tmp_path, "significance.csv") if row["kind"] == "api"]
    assert [row["verdict"] for row in rows] == ["sound"]


def test_a_step_is_ranked_by_api_and_by_module(tmp_path, capsys):
    model = torch.nn.Sequential(torch.nn.Linear(N, N), torch.nn.LayerNorm(N))
    debugger = PrecisionDebugger(task="free_benchmark", dump_path=tmp_path, significance=4)
    debugger.start(model)
    result = model(X)
    torch.sub(result, result.detach() * (1 + 1e-5))
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()

    rows = rows_in(tmp_path, "significance.csv")
    apis = [row for row in rows if row["kind"] == "api"]
    modules = {row["name"]: row["worst_call"] for row in rows if row["kind"] == "module"}

    assert apis[0]["name"] == "Torch.sub"
    assert [float(row["bits"]) for row in apis] == sorted(float(row["bits"]) for row in apis)
    assert modules["Module.0.Linear"] == "Functional.linear.0.forward"
    assert set(modules) == {"Module.Sequential", "Module.0.Linear", "Module.1.LayerNorm"}
    assert "worst: Torch.sub: " in capsys.readouterr().out


def test_complex_numbers_have_bits_too(tmp_path):
    row = measured(tmp_path, torch.fft.fft, X)

    assert row["verdict"] == "sound"
    assert 20 < float(row["bits"]) < 24 and 0.5 < float(row["condition"]) < 2


def test_the_numbers_of_two_runs_are_the_same(tmp_path):
    assert measured(tmp_path / "a", torch.exp, X) == measured(tmp_path / "b", torch.exp, X)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: torch.exp(torch.tensor([100.0, 1.0])), id="overflow"),
        pytest.param(lambda: torch.mul(torch.tensor([-1e38, 1.0]), 10), id="negative-overflow"),
        pytest.param(lambda: X.double(), id="raised"),
        pytest.param(lambda: X.bfloat16().float(), id="raised-from-bfloat16"),
        pytest.param(lambda: torch.linalg.svd(X), id="vectors-of-either-sign"),
        pytest.param(lambda: torch.linalg.eigh(SPD), id="other-vectors-of-either-sign"),
    ],
)
def test_what_a_dtype_and_a_definition_allow_is_sound(call, tmp_path):
    with perturbing(tmp_path, significance=8):
        call()

    rows = [row for row in rows_in(tmp_path, "significance.csv") if row["kind"] == "api"]
    assert rows
    assert {row["verdict"] for row in rows} == {"sound"}


def test_an_infinity_where_the_truth_is_a_number_is_wrong(tmp_path):
    def early(values):
        return torch.where(values > 50 if values.dtype is torch.float32 else values > 700, math.inf, values.exp2())

    with wrong_kernel("exp", early), perturbing(tmp_path, significance=4, list=["exp"]):
        torch.exp(torch.tensor([60.0, 1.0]))

    (row,) = [row for row in rows_in(tmp_path, "significance.csv") if row["kind"] == "api"]
    assert row["verdict"] == "wrong"


def test_what_is_nan_has_no_significant_bits(tmp_path):
    with perturbing(tmp_path, significance=3):
        torch.matmul(torch.ones(2, 2), torch.full((2, 2), math.nan))
        torch.log(torch.tensor([-1.0, 2.0]))

    rows = [row for row in rows_in(tmp_path, "significance.csv") if row["kind"] == "api"]
    assert {
        row["name"]: (row["bits"], row["verdict"]) for row in rows if row["name"] in ("Torch.matmul", "Torch.log")
    } == {
        "Torch.matmul": ("0.0", "nan"),
        "Torch.log": ("0.0", "nan"),
    }


def test_of_several_nan_the_first_call_is_named(tmp_path, capsys):
    with perturbing(tmp_path, significance=2):
        torch.log(torch.div(torch.zeros(2), torch.zeros(2)))

    assert "worst: Torch.div" in capsys.readouterr().out


def test_an_empty_result_is_said_to_be_empty(tmp_path, capsys):
    with perturbing(tmp_path, significance=2):
        F.linear(torch.empty(0, 4), torch.ones(4, 4))

    said = capsys.readouterr().out
    assert "its result is empty" in said and "no floating-point" not in said
    assert "nothing was checked with" in said
