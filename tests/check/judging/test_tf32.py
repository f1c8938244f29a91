"""TF32 is told by its very errors; another error of that size is a fault."""

from __future__ import annotations

import pytest
import torch

from torchparity.check.judging import Outcome, Status, judge


def numbers(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


LEFT, RIGHT = numbers(64, 64, seed=0), numbers(64, 64, seed=1)
TRUTH = LEFT.double() @ RIGHT.double()


def rounded_to_ten_bits(tensor):
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def cut_to_ten_bits(tensor):
    return (tensor.view(torch.int32) & ~0x1FFF).view(torch.float32)


def product(shortened):
    return shortened(LEFT).double() @ shortened(RIGHT).double()


def variants(number):
    ways = [rounded_to_ten_bits, cut_to_ten_bits]
    return product(ways[number]) if number < len(ways) else None


def found(device, api="Torch.matmul", tf32=variants):
    name = f"{api}.0.forward.output.0"
    return judge(Outcome(api, name, device.float(), TRUTH, LEFT @ RIGHT, tf32=tf32))


@pytest.mark.parametrize("shortened", [rounded_to_ten_bits, cut_to_ten_bits])
@pytest.mark.parametrize(("api", "status"), [("Torch.matmul", Status.WARNING), ("Torch.exp", Status.ERROR)])
def test_tf32_shows_as_such_in_products_alone(shortened, api, status):
    judged = found(product(shortened), api)

    assert judged.status is status
    assert ("TF32" in judged.message) == (status is Status.WARNING)


FAULTS = {
    "a-factor-of-1.001": lambda: TRUTH * 1.001,
    "a-factor-of-1.0003": lambda: TRUTH * 1.0003,
    "noise": lambda: TRUTH + 1e-3 * TRUTH.square().mean().sqrt() * numbers(64, 64, seed=2),
    "one-row": lambda: torch.cat([TRUTH[:1] * 1.001, TRUTH[1:]]),
    "factors-of-7-bits": lambda: LEFT.bfloat16().double() @ RIGHT.bfloat16().double(),
    "one-element": lambda: TRUTH + 0.01 * torch.nn.functional.one_hot(torch.tensor([5] + [4] * 63), 64),
    "no-sum-in-tf32-but-a-factor": lambda: product(rounded_to_ten_bits) * 1.002,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_another_error_of_that_size_is_a_fault(fault):
    judged = found(FAULTS[fault]())

    assert (judged.status, "TF32" in judged.message) == (Status.ERROR, False)


def test_without_a_reference_in_tf32_nothing_is_said_of_it():
    assert found(product(rounded_to_ten_bits), tf32=None).status is Status.ERROR


@pytest.mark.parametrize(("times", "status"), [(2000, Status.WARNING), (100, Status.ERROR), (20_000, Status.ERROR)])
def test_where_products_cannot_be_seen_the_size_must_do(times, status):
    own, device = (TRUTH * (1 + by * (numbers(64, 64, seed=3).sigmoid().double() - 0.5) * 2**-18) for by in (1, times))
    outcome = Outcome("Torch.matrix_exp", "Torch.matrix_exp.0.forward.output.0", device.float(), TRUTH, own.float())

    assert judge(outcome).status is status


@pytest.mark.parametrize(
    ("api", "is_on", "status"),
    [
        pytest.param("VF.gru", True, Status.WARNING, id="a recurrence"),
        pytest.param("VF.gru", False, Status.ERROR, id="a recurrence without TF32"),
        pytest.param("Torch.matmul", True, Status.ERROR, id="a product"),
    ],
)
def test_in_a_recurrence_a_device_that_is_set_so_may_use_tf32_for_some_products(api, is_on, status):
    noise = 2**-12 * TRUTH.square().mean().sqrt() * numbers(64, 64, seed=4).clamp(-2, 2)
    device = (TRUTH + noise).float()

    judged = judge(
        Outcome(api, f"{api}.0.forward.output.0", device, TRUTH, LEFT @ RIGHT, tf32=variants, recurs_in_tf32=is_on)
    )

    assert (judged.status, "TF32" in judged.message) == (status, status is Status.WARNING)
