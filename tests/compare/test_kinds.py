"""Runs that keep different things of their tensors are compared by what both have, or not at all."""

from __future__ import annotations

from itertools import count

import pytest
import torch

from torchparity import compare
from torchparity.capture import capture

KEPT = {
    "statistics": {},
    "md5": {"summary_mode": "md5"},
    "xor": {"summary_mode": "xor"},
    "tensor": {"task": "tensor"},
    "some values": {"tensor_list": ["sin"]},
}


def record(path, kept, *, fault=1.0):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, generator=generator)
    with capture(path, level="L1", **KEPT[kept]):
        y = torch.cos(torch.sin(x) * 2.0)
        y = torch.tanh(y) * fault
        torch.exp(torch.sin(y))
    return path


@pytest.fixture
def runs(tmp_path):
    numbers = count()
    return lambda kept, fault=1.0: record(tmp_path / f"run{next(numbers)}", kept, fault=fault)


@pytest.mark.parametrize("other", ["some values", "tensor", "statistics"])
def test_what_has_no_values_is_compared_by_its_statistics(runs, other):
    found = compare(runs("some values", 1.001), runs(other))

    assert found.first_divergence is not None and found.first_divergence.record == "Tensor.mul.1.forward"


@pytest.mark.parametrize("other", ["some values", "tensor", "statistics"])
def test_runs_that_agree_agree_whatever_else_they_keep(runs, other):
    done = compare(runs("some values"), runs(other))

    assert done.headline().startswith("The runs agree") and not done.has_differences


@pytest.mark.parametrize("fault", [1.0, 1.001])
@pytest.mark.parametrize("other", ["md5", "tensor", "statistics"])
def test_xor_checksums_are_compared_with_nothing_else(runs, other, fault):
    pair = runs("xor"), runs(other, fault)
    for done in (compare(*pair), compare(*pair[::-1])):
        assert done.headline().startswith("The runs cannot be compared")
        assert done.has_differences and not done.has_compared
        assert "xor checksums" in " ".join(done.notes + done.parts[0].notes)


def test_xor_checksums_are_compared_with_each_other(tmp_path):
    plain = record(tmp_path / "plain", "xor")
    again = record(tmp_path / "again", "xor")
    wrong = record(tmp_path / "wrong", "xor", fault=1.001)

    assert compare(again, plain).headline().startswith("The runs agree")
    assert compare(wrong, plain).first_divergence.record == "Tensor.mul.1.forward"


def test_values_that_are_not_finite_on_one_side_are_seen_without_values(runs):
    done = compare(runs("some values", float("nan")), runs("some values"))

    assert done.first_divergence.record == "Tensor.mul.1.forward"
