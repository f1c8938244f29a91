"""Every perturbation: what it changes, what it leaves, and what it cancels."""

from __future__ import annotations

import inspect
import math
from typing import get_args, get_type_hints

import pytest
import torch

from tests.support.perturbing import MODES, same
from torchparity import plugins
from torchparity.config import FreeBenchmarkTask
from torchparity.perturb.perturbations import Perturbation, perturbation
from torchparity.perturb.perturbations.improve_precision import WITH_FLOAT32, ImprovePrecision
from torchparity.perturb.subject import CancelledError, Subject

SPECIAL = [1.0, -1.0, 0.1, 3e4, 0.0, -0.0, math.inf, -math.inf, math.nan]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def subject(*tensors, api="Torch.add", args=None, **kwargs):
    return Subject(api, tensors if args is None else args, kwargs, list(tensors))


def ulps(left, right):
    """Return how many units in the last place two tensors of finite numbers of one sign are apart."""
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    return (right.view(kind).long() - left.view(kind).long()).tolist()


def test_the_settings_offer_every_perturbation():
    assert tuple(get_args(get_type_hints(FreeBenchmarkTask)["pert_mode"])) == MODES
    assert plugins.names("perturb.perturbations") == sorted(MODES)


@pytest.mark.parametrize("mode", MODES)
def test_a_perturbation_keeps_the_contract(mode):
    found = perturbation(mode)

    assert found.name == mode
    assert found.is_differentiable == (mode in ("improve_precision", "to_cpu"))
    for field in get_type_hints(Perturbation):
        assert hasattr(found, field), field
    for method in ("perturbed", "changed"):
        wanted = list(inspect.signature(getattr(Perturbation, method)).parameters)[1:]
        assert list(inspect.signature(getattr(found, method)).parameters) == wanted


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("mode", "moves"), [("bit_noise", (1, 0)), ("add_noise", (1, -1))])
def test_noise_moves_by_one_unit_in_the_last_place_and_leaves_the_rest(mode, moves, dtype):
    tensors = [torch.tensor(SPECIAL, dtype=dtype) for _ in range(2)]
    before = [tensor.clone() for tensor in tensors]

    moved = perturbation(mode).perturbed(subject(*tensors))

    assert same(tensors, before)
    for place, by in enumerate(moves):
        assert [abs(each) for each in ulps(before[place][:4], moved[place][:4])] == [abs(by)] * 4
        assert same(moved[place][4:], before[place][4:])
    if mode == "add_noise":
        assert (moved[0][:4].abs() > before[0][:4].abs()).all() and (moved[1][:4].abs() < before[1][:4].abs()).all()


@pytest.mark.parametrize("mode", ["bit_noise", "add_noise"])
def test_noise_spares_the_largest_and_the_tiniest(mode):
    limits = torch.finfo(torch.float32)
    extreme = torch.tensor([limits.max, -limits.max, limits.tiny / 2, 1e-45])

    (moved,) = perturbation(mode).perturbed(subject(extreme))

    assert same(moved, extreme)


@pytest.mark.parametrize("mode", ["bit_noise", "add_noise"])
def test_noise_reaches_complex_numbers_and_tensors_of_any_layout(mode):
    complex_numbers = torch.randn(4, dtype=torch.complex64).conj()
    transposed = torch.randn(3, 4).T

    for tensor in (complex_numbers, transposed, torch.randn(1, 4).expand(3, 4)):
        (moved,) = perturbation(mode).perturbed(subject(tensor))
        assert moved.shape == tensor.shape and moved.dtype == tensor.dtype
        assert torch.allclose(moved, tensor, rtol=1e-6) and not (moved == tensor).any()


def test_improve_precision_raises_low_precision_and_nothing_else():
    low, high, whole = torch.ones(2).half(), torch.ones(2).double(), torch.ones(2).int()
    improve = perturbation("improve_precision")

    raised = improve.perturbed(subject(low, high, whole))

    assert [tensor.dtype for tensor in raised] == [torch.float32, torch.float64, torch.int32]
    assert improve.changed(torch.bfloat16) is torch.float32 and improve.changed(torch.float64) is torch.float64


def test_improve_precision_raises_float32_where_that_is_asked_for():
    improve = ImprovePrecision(WITH_FLOAT32)

    raised = improve.perturbed(subject(torch.ones(2), torch.ones(2).int()))
    raised_halves = improve.perturbed(subject(torch.ones(2).half()))

    assert [tensor.dtype for tensor in raised] == [torch.float64, torch.int32]
    assert [tensor.dtype for tensor in raised_halves] == [torch.float32]
    assert improve.changed(torch.float32) is torch.float64


def test_to_cpu_raises_low_precision_and_turns_devices():
    move = perturbation("to_cpu")

    (raised,) = move.perturbed(subject(torch.ones(2).bfloat16()))

    assert raised.dtype is torch.float32 and raised.device.type == "cpu"
    assert move.changed(torch.device("cuda", 1)) == torch.device("cpu")
    assert move.changed("cuda:1") == "cpu" and move.changed("mean") == "mean"


MATRIX = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("api", "args", "kwargs", "expected"),
    [
        pytest.param("Torch.sum", (MATRIX,), {}, [[5, 1, 2], [3, 4, 0]], id="all"),
        pytest.param("Tensor.mean", (MATRIX, 1), {}, [[2, 1, 0], [5, 4, 3]], id="rows"),
        pytest.param("Tensor.sum", (MATRIX,), {"dim": (-2,)}, [[3, 4, 5], [0, 1, 2]], id="columns"),
        pytest.param("Torch.linalg.vector_norm", (MATRIX, 2, -1), {}, [[2, 1, 0], [5, 4, 3]], id="norm"),
        pytest.param("Tensor.var", (MATRIX, False), {}, [[5, 1, 2], [3, 4, 0]], id="no-dimension"),
    ],
)
def test_change_value_exchanges_the_first_and_the_last_of_what_is_reduced(api, args, kwargs, expected):
    (changed,) = perturbation("change_value").perturbed(subject(MATRIX, api=api, args=args, **kwargs))

    assert same(changed, torch.tensor(expected, dtype=torch.float32))


def test_change_value_exchanges_pairs_together():
    both = perturbation("change_value").perturbed(subject(MATRIX, MATRIX + 1, api="Functional.mse_loss"))

    assert same(both[0] + 1, both[1])


@pytest.mark.parametrize(
    ("mode", "given", "reason"),
    [
        ("change_value", subject(MATRIX, api="Torch.cumsum"), "depends on the order"),
        ("change_value", subject(MATRIX, MATRIX, api="Torch.matmul"), "depends on the order"),
        ("change_value", subject(MATRIX, MATRIX, api="Functional.mse_loss", reduction="none"), "depends on the order"),
        (
            "change_value",
            subject(MATRIX, MATRIX, api="Functional.mse_loss", args=(MATRIX, MATRIX, None, None, "none")),
            "depends on the order",
        ),
        ("change_value", subject(MATRIX, MATRIX, api="Functional.mse_loss", reduce=False), "depends on the order"),
        ("change_value", subject(torch.ones(1), api="Torch.sum"), "no two elements"),
        ("change_value", subject(torch.tensor(1.0), api="Torch.sum"), "no two elements"),
        ("bit_noise", subject(torch.ones(2).int()), "no floating-point input"),
        ("bit_noise", subject(torch.ones(2).to(torch.float8_e4m3fn)), "too few bits"),
        ("add_noise", subject(torch.empty(0)), "empty"),
        ("no_change", subject(torch.empty(0)), "empty"),
        ("to_cpu", subject(torch.empty(0)), "empty"),
        ("improve_precision", subject(torch.ones(2)), "no low-precision input, and raise_float32 is off$"),
        ("improve_precision", subject(torch.empty(0).half()), "empty"),
    ],
)
def test_what_has_no_meaning_is_cancelled_with_its_reason(mode, given, reason):
    with pytest.raises(CancelledError, match=reason):
        perturbation(mode).perturbed(given)


@pytest.mark.parametrize(
    ("api", "args"),
    [
        pytest.param("Torch.linalg.norm", (2,), id="spectral"),
        pytest.param("Torch.linalg.norm", (1, (0, 1)), id="largest-column"),
        pytest.param("Torch.norm", ("nuc",), id="nuclear"),
        pytest.param("Torch.kl_div", (torch.ones(2, 2), 0), id="reduction-as-a-number"),
    ],
)
def test_what_depends_on_the_places_of_elements_is_not_exchanged(api, args):
    matrix = torch.arange(4.0).reshape(2, 2)
    tensors = [matrix, *(value for value in args if isinstance(value, torch.Tensor))]
    call = Subject(api, (matrix, *args), {}, tensors)

    with pytest.raises(CancelledError, match="depends on the order of the elements"):
        perturbation("change_value").perturbed(call)


def test_the_norm_of_all_elements_is_exchanged():
    matrix = torch.arange(4.0).reshape(2, 2)

    for api, args in (("Torch.norm", (2,)), ("Torch.linalg.norm", ()), ("Torch.linalg.norm", ("fro",))):
        (exchanged,) = perturbation("change_value").perturbed(Subject(api, (matrix, *args), {}, [matrix]))
        assert exchanged.tolist() == [[3.0, 1.0], [2.0, 0.0]]


@pytest.mark.parametrize("mode", ["improve_precision", "to_cpu"])
@pytest.mark.parametrize("api", ["Torch.nan_to_num", "Tensor.nextafter_", "Aten.view_copy"])
def test_what_depends_on_the_dtype_is_not_raised(api, mode):
    with pytest.raises(CancelledError, match="depends on the dtype"):
        perturbation(mode).perturbed(subject(torch.ones(2, dtype=torch.float16), api=api))


def test_all_inputs_of_a_call_are_raised_to_one_dtype():
    tensors = [torch.ones(2, dtype=torch.bfloat16), torch.ones(2), torch.ones(2, dtype=torch.int64)]

    raised = ImprovePrecision(WITH_FLOAT32).perturbed(subject(*tensors))

    assert [tensor.dtype for tensor in raised] == [torch.float64, torch.float64, torch.int64]


def test_what_is_left_out_with_raise_float32_does_not_advise_it():
    with pytest.raises(CancelledError, match=r"no low-precision input$"):
        ImprovePrecision(WITH_FLOAT32).perturbed(subject(torch.ones(2).double()))
