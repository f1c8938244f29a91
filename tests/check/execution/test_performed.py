"""Running a call again in three ways: the dtypes, gradients, writes and random numbers of each."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.check.recorded_calls import recorded_cases
from torchparity.check.cases import CannotRun
from torchparity.check.execution import Performed, perform
from torchparity.ops import function_called

CPU = torch.device("cpu")


def performed(work, name: str) -> Performed:
    case = recorded_cases(work)[name]
    function = function_called(case.api)
    assert function is not None
    return perform(case, function, CPU)


@pytest.mark.parametrize(
    ("dtype", "reference"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float64),
        (torch.float64, torch.float64),
        (torch.complex64, torch.complex128),
        (torch.int64, torch.int64),
    ],
)
def test_the_reference_is_one_step_wider(dtype, reference):
    values = torch.ones(4).to(dtype)

    done = performed(lambda: values + values, "Tensor.add.0")

    assert (done.device.outputs["0"].dtype, done.reference.outputs["0"].dtype) == (dtype, reference)


def test_whole_numbers_become_floats_as_wide_as_the_reference():
    done = performed(lambda: torch.true_divide(torch.tensor([1, 2]), 3), "Torch.true_divide.0")

    assert done.reference.outputs["0"].dtype == torch.float64


def test_a_conversion_keeps_the_dtype_that_it_is_asked_for():
    done = performed(lambda: torch.randn(5).to(torch.bfloat16), "Tensor.to.0")

    assert done.reference.outputs["0"].dtype == torch.bfloat16
    assert torch.equal(done.device.outputs["0"], done.reference.outputs["0"])


def test_several_outputs_have_their_recorded_gradients():
    values = torch.randn(6, requires_grad=True)

    def work():
        left, right = values.split(3)
        (left.sum() * 2 + right.sum() * 5).backward()

    done = performed(work, "Tensor.split.0")

    assert done.device.gradients["0"].tolist() == [2.0] * 3 + [5.0] * 3


def test_a_call_in_place_leaves_the_recorded_values_alone():
    values = torch.randn(4)
    case = recorded_cases(lambda: values.clone().mul_(3))["Tensor.mul_.0"]

    first = perform(case, torch.Tensor.mul_, CPU).device.outputs["0"]

    assert torch.equal(first, values * 3)
    assert torch.equal(perform(case, torch.Tensor.mul_, CPU).device.outputs["0"], first)


def test_what_a_call_writes_and_does_not_return_is_a_result():
    def work():
        torch.zeros(3)[1] = 2.0

    done = performed(work, "Tensor.__setitem__.0")

    assert done.device.written["0"].tolist() == [0.0, 2.0, 0.0]


def test_out_has_no_gradients_and_says_so():
    values = torch.randn(3)

    done = performed(lambda: torch.add(values, values, out=torch.empty(3)), "Torch.add.0")

    assert torch.equal(done.device.outputs["0"], values + values)
    assert done.call.seeds is None


def test_arguments_that_autocast_changed_are_changed_again():
    weight = torch.randn(4, 4, requires_grad=True)

    def work():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            F.linear(torch.randn(2, 4), weight).float().sum().backward()

    done = performed(work, "Functional.linear.0")

    assert done.device.outputs["0"].dtype == torch.bfloat16
    assert done.reference.outputs["0"].dtype == torch.float32


def test_random_numbers_are_noticed():
    values = torch.ones(100)

    assert performed(lambda: F.dropout(values, 0.5), "Functional.dropout.0").reference.has_drawn
    assert not performed(lambda: F.dropout(values, 0.5, training=False), "Functional.dropout.0").reference.has_drawn


def test_emulated_rounding_is_near_the_reference_and_not_it():
    values = torch.randn(50)
    done = performed(lambda: torch.exp(values), "Torch.exp.0")

    rounded = done.emulated(0)

    assert rounded is not None
    assert not torch.equal(rounded.outputs["0"], done.reference.outputs["0"])
    assert torch.allclose(rounded.outputs["0"], done.reference.outputs["0"], rtol=1e-5)


def test_an_api_that_raises_is_a_reason():
    case = recorded_cases(lambda: torch.exp(torch.randn(2)))["Torch.exp.0"]

    with pytest.raises(CannotRun, match="it raised on cpu: TypeError"):
        perform(case, torch.matmul, CPU)
