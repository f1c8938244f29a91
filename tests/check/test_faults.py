"""Faults of the size that rounding might be taken for: each is found, and the same call without it passes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.check.faulty_results import judged, normal, of_output, scaled
from torchparity.check.judging import Status

SQUARE, OTHER = normal(64, 64), normal(64, 64, seed=1)
WHOLE = (4 * SQUARE).round()
PARTLY = WHOLE + 7 * (OTHER > 0)
PLACES = torch.arange(64)
HALVES = {torch.bfloat16: 1.05, torch.float16: 1.006}

IN_HALF = {
    "Torch.add.0": lambda a, b: torch.add(a, b),
    "Torch.sub.0": lambda a, b: torch.sub(a, b, alpha=0.3),
    "Torch.cumsum.0": lambda a, b: torch.cumsum(a, 0),
    "Functional.avg_pool2d.0": lambda a, b: F.avg_pool2d(a.unsqueeze(0), 2),
    "Functional.batch_norm.0": lambda a, b: F.batch_norm(a, None, None, training=True),
    "Functional.log_softmax.0": lambda a, b: F.log_softmax(a, -1),
    "Functional.interpolate.0": lambda a, b: F.interpolate(a[None, None], scale_factor=2.0),
    "Functional.scaled_dot_product_attention.0": lambda a, b: F.scaled_dot_product_attention(a[None], b[None], a[None]),
    "Functional.conv_transpose2d.0": lambda a, b: F.conv_transpose2d(a[None, None], b[None, None, :3, :3]),
    "Torch.mul.0": lambda a, b: torch.mul(a, b),
}
MOVING = {
    "Tensor.__getitem__.0": lambda a: a[PLACES],
    "Torch.gather.0": lambda a: torch.gather(a, 0, PLACES[None].expand(64, 64)),
    "Torch.index_select.0": lambda a: torch.index_select(a, 0, PLACES),
    "Functional.pad.0": lambda a: F.pad(a, (1, 1)),
    "Torch.relu.0": lambda a: torch.relu(a),
    "Tensor.clone.0": lambda a: a.clone(),
    "Torch.clamp.0": lambda a: torch.clamp(a, 0.1, 0.7),
    "Functional.threshold.0": lambda a: F.threshold(a, 0.1, 0.3),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", IN_HALF)
def test_a_few_percent_are_no_rounding_of_half_precision(name, dtype):
    a, b = SQUARE.to(dtype), OTHER.to(dtype)

    assert judged(lambda: IN_HALF[name](a, b), name).forward is Status.PASS
    assert judged(lambda: IN_HALF[name](a, b), name, of_output(scaled(HALVES[dtype]))).forward is Status.ERROR


@pytest.mark.parametrize(
    ("dtype", "by", "status"),
    [
        (torch.bfloat16, 1.006, Status.ERROR),
        (torch.float16, 1.002, Status.ERROR),
        (torch.float32, 1.001, Status.ERROR),
        (torch.float32, 1.00005, Status.WARNING),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", MOVING)
def test_what_is_only_moved_is_held_to_every_bit(name, dtype, by, status):
    a = SQUARE.to(dtype)

    assert judged(lambda: MOVING[name](a), name).forward is Status.PASS
    found = judged(lambda: MOVING[name](a), name, of_output(scaled(by)))
    assert found.forward is status
    assert "makes no new numbers" in found.message


EXACT = {
    "floor": ("Torch.floor.0", lambda: torch.floor(WHOLE), lambda t: t - t.sign()),
    "round": ("Torch.round.0", lambda: torch.round(WHOLE), lambda t: t + 3 * t.sign()),
    "long": ("Tensor.long.0", lambda: WHOLE.long(), lambda t: t - t.sign()),
    "to": ("Tensor.to.0", lambda: WHOLE.to(torch.int32), lambda t: t - t.sign()),
    "eq": ("Torch.eq.0", lambda: torch.eq(WHOLE, PARTLY), lambda t: t & (WHOLE == 0)),
    "ge": ("Torch.ge.0", lambda: torch.ge(WHOLE, PARTLY), lambda t: t & ((WHOLE != PARTLY) | (WHOLE == 0))),
    "searchsorted": (
        "Torch.searchsorted.0",
        lambda: torch.searchsorted(PLACES.float(), PLACES.float()),
        lambda t: t + (t > 0),
    ),
    "argmax": ("Torch.argmax.0", lambda: torch.argmax(torch.tensor([1.0, 1.0, 1.0000001])), lambda t: t * 0),
}


@pytest.mark.parametrize("fault", EXACT)
def test_an_answer_at_a_step_of_the_function_is_no_rounding(fault):
    name, work, change = EXACT[fault]

    assert judged(work, name).forward is Status.PASS
    assert judged(work, name, of_output(change)).forward is Status.ERROR


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("operator", ["gt", "ge", "eq", "lt", "ne"])
def test_a_comparison_with_a_number_that_is_rounded_passes(operator, dtype):
    """0.1 is another number in each dtype, and a kernel may compare with either."""
    tenths = torch.tensor([0.1, 0.2, 0.3], dtype=dtype)

    assert judged(lambda: getattr(torch, operator)(tenths, 0.1), f"Torch.{operator}.0").forward is Status.PASS


ONE_WRONG = {
    "one-element": lambda t: t.index_put((torch.tensor(7), torch.tensor(9)), t[7, 9] * 1.08),
    "one-row": lambda t: torch.cat([scaled(1.03)(t[:1]), t[1:]]),
    "large-results-alone": lambda t: torch.where(t > 4, scaled(1.05)(t), t),
}


@pytest.mark.parametrize("fault", ONE_WRONG)
def test_bfloat16_that_is_wrong_in_places_is_noticed(fault):
    a = SQUARE.bfloat16()

    found = judged(lambda: torch.exp(a), "Torch.exp.0", of_output(ONE_WRONG[fault]))
    assert found.forward in (Status.WARNING, Status.ERROR)


def test_float32_that_is_off_below_the_rule_everywhere_is_warned_of():
    assert judged(lambda: torch.exp(SQUARE), "Torch.exp.0").message == ""
    found = judged(lambda: torch.exp(SQUARE), "Torch.exp.0", of_output(scaled(1 + 9e-5)))
    assert found.forward is Status.WARNING
    assert "beyond what rounding explains" in found.message


def test_a_gradient_of_one_of_several_inputs_is_failed_alone():
    def work():
        F.linear(SQUARE.clone().requires_grad_(), OTHER.clone().requires_grad_()).backward(torch.ones(64, 64))

    def fault(results):
        results.gradients["1"] = scaled(1.001)(results.gradients["1"])

    found = judged(work, "Functional.linear.0", fault)
    assert [(row.name, row.status) for row in found.details if row.status is not Status.PASS] == [
        ("Functional.linear.0.backward.output.1", Status.ERROR)
    ]


@pytest.mark.parametrize("form", ["none", "tanh"])
@pytest.mark.parametrize("around", [-8.0, -5.5, -4.5, 3.0])
def test_a_gelu_of_negative_numbers_alone_passes(around, form):
    """Of 1 + erf(x) only few digits are left there."""
    inputs = (around + 0.1 * SQUARE[0, :12]).requires_grad_()

    found = judged(lambda: F.gelu(inputs, approximate=form).backward(torch.ones(12)), "Functional.gelu.0")
    assert (found.forward, found.backward) == (Status.PASS, Status.PASS)
