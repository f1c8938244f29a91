"""Runs that keep different things of their tensors are compared by what both have, or not at all."""

from __future__ import annotations

import re
from itertools import count

import pytest
import torch

from torchparity import compare
from torchparity.recording import capture

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

    assert done.verdict.kind == "agree" and done.verdict.agreement.is_identical and not done.has_differences


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

    assert compare(again, plain).headline().startswith("The runs are identical")
    assert compare(wrong, plain).first_divergence.record == "Tensor.mul.1.forward"


def test_values_that_are_not_finite_on_one_side_are_seen_without_values(runs):
    done = compare(runs("some values", float("nan")), runs("some values"))

    assert done.first_divergence.record == "Tensor.mul.1.forward"


def test_a_sign_that_only_the_mean_shows_is_seen(tmp_path):
    def saved(name, factor):
        x = torch.tensor([1.0, -1.0, 0.5, 0.25])
        with capture(tmp_path / name, level="debug") as recording:
            recording.save(x * factor, "x")
        return tmp_path / name

    done = compare(saved("flipped", -1.0), saved("plain", 1.0))

    assert done.verdict.kind != "agree"


def test_a_run_that_lost_what_the_other_has_does_not_agree_without_a_word(tmp_path):
    plain, other = record(tmp_path / "plain", "statistics"), record(tmp_path / "other", "statistics")
    file = other / "step0" / "rank0" / "dump.json"
    file.write_text(re.sub(r'"Max":[^"]*"Min":[^"]*"Mean":[^"]*"Norm":[^"]*', "", file.read_text(), count=3))

    done = compare(other, plain)

    assert "3 rows whose data is missing or unreadable in one run could not be compared" in done.headline()
    assert "every statistic that could be read is the same" in done.headline()
    assert done.has_differences


def record_steps(path, *, fault=1.0):
    """Record two steps with values."""
    with capture(path, level="L1", task="tensor") as recording:
        for seed in range(2):
            torch.cos(torch.sin(torch.randn(40, generator=torch.Generator().manual_seed(seed))) * fault)
            recording.step()
    return path


def without_values_of_step_0(run):
    for file in (run / "step0" / "rank0" / "dump_tensor_data").iterdir():
        file.unlink()
    return run


def test_values_that_cannot_be_read_are_not_called_identical(tmp_path):
    other = without_values_of_step_0(record_steps(tmp_path / "other"))

    done = compare(other, record_steps(tmp_path / "plain"))
    said = done.headline()

    assert not done.verdict.agreement.is_identical
    assert said.startswith("The runs agree: every record that could be read has the same bits; ")
    assert "rows whose values are missing or unreadable in one run were compared by statistics alone" in said


def test_values_that_cannot_be_read_are_told_beside_a_finding(tmp_path):
    other = without_values_of_step_0(record_steps(tmp_path / "other", fault=1.001))

    found = compare(other, record_steps(tmp_path / "plain")).verdict

    assert found.first is not None
    assert [line for line in found.remarks if "in one run were compared by statistics alone" in line]


def test_an_operator_whose_values_cannot_be_read_is_blamed_by_its_statistics(tmp_path):
    other = without_values_of_step_0(record_steps(tmp_path / "other", fault=1.001))
    for file in (other / "step1" / "rank0" / "dump_tensor_data").iterdir():
        file.unlink()

    done = compare(other, record_steps(tmp_path / "plain"))

    assert done.first_divergence.record == "Tensor.mul.0.forward"
    assert "compared by statistics alone" in " ".join(done.verdict.remarks)


def test_one_run_of_msprobes_is_said_to_be_one(runs, golden):
    theirs = next((golden / "runs").iterdir())

    said = [
        "msprobe's, which has wrong gradients" in " ".join(done.notes)
        for done in (compare(runs("statistics"), theirs), compare(theirs, theirs), compare(runs("md5"), runs("md5")))
    ]

    assert said == [True, False, False]
