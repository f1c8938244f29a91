"""Judgements of hand-made results: what passes, what fails, and what rounding excuses."""

from __future__ import annotations

import json
import math

import pytest
import torch

from torchparity.check.judging import DETAILS_HEADER, Outcome, Status, join, judge

NAN, INF = math.nan, math.inf


def outcome(device, reference, api="Torch.exp", same_dtype=None, emulate=None, **more):
    return Outcome(api, f"{api}.0.forward.output.0", device, reference, same_dtype, emulate, **more)


def column(judgement, name):
    return dict(zip(DETAILS_HEADER, judgement.row(), strict=True))[name]


@pytest.mark.parametrize(
    ("device", "reference", "status"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.0], Status.PASS, id="equal"),
        pytest.param([1.0, 2.0], [1.00009, 2.0], Status.PASS, id="below-a-ten-thousandth"),
        pytest.param([1.0, 2.0], [1.0002, 2.0], Status.ERROR, id="beyond-a-ten-thousandth"),
        pytest.param([1.0, -2.0], [1.0, 2.0], Status.ERROR, id="a-wrong-sign"),
        pytest.param([1.0, NAN], [1.0, 2.0], Status.ERROR, id="a-nan-too-many"),
        pytest.param([1.0, 2.0], [1.0, NAN], Status.ERROR, id="a-nan-too-few"),
        pytest.param([1.0, NAN], [1.0, NAN], Status.PASS, id="a-nan-in-its-place"),
        pytest.param([1.0, -INF], [1.0, INF], Status.ERROR, id="an-inf-of-the-other-sign"),
        pytest.param([0.0, 0.0], [0.0, 0.0], Status.PASS, id="zeros"),
        pytest.param([0.1, 0.0], [0.0, 0.0], Status.ERROR, id="a-number-instead-of-zero"),
        pytest.param([], [], Status.PASS, id="nothing"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_float32_is_held_to_a_ten_thousandth(device, reference, status, dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64

    found = judge(outcome(torch.tensor(device, dtype=dtype), torch.tensor(reference, dtype=wide)))

    assert found.status is status
    assert bool(found.message) == (status is not Status.PASS)


@pytest.mark.parametrize(
    ("wrong", "status"), [pytest.param(1, Status.PASS, id="too-few"), pytest.param(3, Status.ERROR, id="too-many")]
)
def test_the_share_of_wrong_elements_decides(wrong, status):
    """Of 20,000 elements fewer than 2 may be off by more than a ten-thousandth."""
    reference = torch.linspace(1, 2, 20_000, dtype=torch.float64)
    device = reference.float()
    device[:wrong] *= 1.01

    assert judge(outcome(device, reference)).status is status


@pytest.mark.parametrize("place", [(7, 9), (499, 199)], ids=str)
def test_one_wrong_element_among_many_is_warned_of(place):
    reference = torch.linspace(1, 2, 100_000, dtype=torch.float64).reshape(500, 200)
    own = reference.float()
    device = own.clone()
    device[place] *= 1.01

    found = judge(outcome(device, reference, same_dtype=own))

    assert found.status is Status.WARNING
    assert f"element {place}" in found.message


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_a_rounded_result_is_normal_for_few_bits(dtype):
    """Most of these are subnormal in float16, and nothing in float8."""
    reference = torch.randn(300, generator=torch.Generator().manual_seed(0)) * 1e-4

    found = judge(outcome(reference.to(dtype), reference))

    assert found.status is Status.PASS
    assert found.message.startswith(f"Normal for {dtype}")
    assert found.metrics.max_ulp <= 0.5


@pytest.mark.parametrize(
    ("times", "status"), [(1, Status.PASS), (3, Status.PASS), (7, Status.WARNING), (40, Status.ERROR)]
)
def test_the_error_of_the_cpu_in_that_dtype_tells_normal_from_wrong(times, status):
    """An error of 4 ULP of the CPU's own allows 1 + 4 * 4 = 17 ULP, and a warning up to 34."""
    reference = torch.full((100,), 1.0)
    own = torch.full((100,), 1 + 4 * 2**-7, dtype=torch.bfloat16)
    device = torch.full((100,), 1 + times * 4 * 2**-7, dtype=torch.bfloat16)

    found = judge(outcome(device, reference, same_dtype=own))

    assert found.status is status
    assert found.multiple == times
    assert found.cpu_max_ulp == 4


def test_cancellation_is_excused_where_moved_inputs_show_it():
    """1 + 1e-9 - 1 is 0 in float32; an input moved by an ULP shows that nothing better can be had."""
    reference = torch.tensor(1e-9, dtype=torch.float64)
    device = torch.tensor(0.0)
    asked = []

    def emulate(number):
        asked.append(number)
        return reference + (number - 3) * 2.0**-24

    assert judge(outcome(torch.tensor(0.01), reference, "Torch.sum", emulate=emulate)).status is Status.ERROR
    assert asked == list(range(8))
    asked.clear()
    assert judge(outcome(device, reference, "Torch.sum", emulate=emulate)).status is Status.PASS
    assert asked == [0]
    assert judge(outcome(device, reference, "Torch.sum")).status is Status.ERROR


def test_a_sample_with_inf_does_not_allow_any_error():
    reference, own = torch.full((4,), 1.0), torch.tensor([1.0, INF, 1.0, 1.0], dtype=torch.float16)
    wrong = torch.tensor([1.0, 1.0, 1.5, 1.0], dtype=torch.float16)

    assert judge(outcome(wrong, reference, same_dtype=own)).status is Status.ERROR
    assert judge(outcome(own.clone(), reference, same_dtype=own)).status is Status.PASS


@pytest.mark.parametrize(("api", "status"), [("VF.gru", Status.PASS), ("Torch.matmul", Status.ERROR)])
def test_a_recurrence_is_allowed_three_times_the_error(api, status):
    reference = torch.full((50,), 1.0, dtype=torch.float64)
    own, device = (reference * (1 + by * 2**-20) for by in (5, 5 * 44))

    assert judge(outcome(device.float(), reference, api, same_dtype=own.float())).status is status


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.uint8])
def test_integers_are_equal_or_wrong(dtype):
    right = torch.tensor([[1, 0], [1, 1]], dtype=dtype)
    wrong = torch.tensor([[1, 0], [0, 1]], dtype=dtype)

    found = judge(outcome(wrong, right))

    assert judge(outcome(right.clone(), right)).status is Status.PASS
    assert (found.status, found.metrics.bitwise_error_rate) == (Status.ERROR, 0.25)
    assert "element (1, 0)" in found.message


def test_integers_of_another_dtype_are_wrong():
    found = judge(outcome(torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1, 2])))

    assert (found.status, "torch.int32" in found.message) == (Status.ERROR, True)


def test_large_integers_are_not_rounded():
    assert judge(outcome(torch.tensor([2**53 + 1]), torch.tensor([2**53]))).status is Status.ERROR


def test_an_index_that_rounding_changes_is_excused():
    """The place of the largest of equals is any of theirs."""
    reference, device = torch.tensor([2, 5]), torch.tensor([4, 5])

    assert (
        judge(outcome(device, reference, "Torch.argmax", emulate=lambda number: torch.tensor([3, 5]))).status == "pass"
    )
    assert judge(outcome(device, reference, "Torch.argmax", emulate=lambda number: reference)).status == "error"


@pytest.mark.parametrize(
    ("device", "reference", "status", "said"),
    [
        pytest.param(None, None, Status.SKIP, "reference is None", id="neither"),
        pytest.param(torch.ones(2), None, Status.SKIP, "reference is None", id="no-reference"),
        pytest.param(None, torch.ones(2), Status.ERROR, "gave None", id="no-result"),
        pytest.param(torch.ones(2), torch.ones(3), Status.ERROR, "shape (2,)", id="shapes"),
        pytest.param(torch.ones(2), torch.ones(2, dtype=torch.int64), Status.ERROR, "torch.int64", id="kinds"),
        pytest.param(2.0, 2.0, Status.PASS, "", id="python-floats"),
        pytest.param(True, False, Status.ERROR, "True instead of False", id="python-booleans"),
        pytest.param(3, 4, Status.ERROR, "3 instead of 4", id="python-integers"),
        pytest.param("sum", "sum", Status.PASS, "", id="texts"),
        pytest.param(torch.float16, torch.float32, Status.ERROR, "torch.float16", id="dtypes"),
        pytest.param(torch.ones(2, device="meta"), torch.ones(2), Status.SKIP, "cannot be compared", id="meta"),
    ],
)
def test_what_is_no_pair_of_tensors(device, reference, status, said):
    found = judge(outcome(device, reference))

    assert found.status is status
    assert said in found.message


def test_sparse_tensors_are_compared_by_their_values():
    reference = torch.eye(3, dtype=torch.float64)

    assert judge(outcome(reference.float().to_sparse(), reference.to_sparse())).status is Status.PASS
    assert judge(outcome(2 * reference.float().to_sparse(), reference.to_sparse())).status is Status.ERROR


def test_zeros_without_memory_are_zeros():
    zeros = torch._efficientzerotensor((2, 3))

    assert judge(outcome(zeros, torch.zeros(2, 3, dtype=torch.float64))).status is Status.PASS
    assert judge(outcome(zeros, torch.ones(2, 3, dtype=torch.float64))).status is Status.ERROR


def test_a_row_has_a_cell_for_each_column():
    found = judge(outcome(torch.ones(2, 2) * 1.5, torch.ones(2, 2, dtype=torch.float64), same_dtype=torch.ones(2, 2)))

    assert column(found, "API Name") == "Torch.exp.0.forward.output.0"
    assert (column(found, "Bench Dtype"), column(found, "DEVICE Dtype")) == ("torch.float64", "torch.float32")
    assert (column(found, "Shape"), column(found, "Status")) == ("(2, 2)", "error")
    assert column(found, "max abs error") == "0.50000000000000"
    assert float(column(found, "max ULP error")) == 0.5 * 2**23
    assert column(found, "multiple of CPU error") == "inf"
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["multiple"] == "inf"


def test_the_worst_status_stands_for_all():
    assert join([Status.PASS, Status.SKIP, Status.WARNING]) is Status.WARNING
    assert join([Status.WARNING, Status.ERROR]) is Status.ERROR
    assert join([Status.SKIP, Status.PASS]) is Status.PASS
    assert join([Status.SKIP]) is Status.SKIP
    assert join([]) is None
