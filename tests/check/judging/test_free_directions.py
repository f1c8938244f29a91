"""Eigenvectors and singular vectors are judged by what is determined of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from torchparity.check.judging import Outcome, judge

MATRIX = torch.randn(5, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SYMMETRIC = MATRIX + MATRIX.mT


def status(api, item, device, reference):
    return str(judge(Outcome(api, f"{api}.0.{item}", device, reference)).status)


def turned(vectors, axis):
    """The vectors with every other sign changed."""
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=vectors.dtype)
    return vectors * (signs if axis == -2 else signs[:, None])


@pytest.mark.parametrize(
    ("api", "place", "axis", "reference"),
    [
        ("Torch.linalg.eigh", 1, -2, torch.linalg.eigh(SYMMETRIC)),
        ("Torch.linalg.svd", 0, -2, torch.linalg.svd(MATRIX)),
        ("Torch.linalg.svd", 2, -1, torch.linalg.svd(MATRIX)),
        ("Torch.svd", 2, -2, torch.svd(MATRIX)),
    ],
)
def test_the_sign_of_a_vector_is_free(api, place, axis, reference):
    right = reference[place]

    assert status(api, f"forward.output.{place}", turned(right, axis).float(), right) == "pass"


def test_the_phase_of_a_complex_vector_is_free():
    right = torch.linalg.eig(MATRIX).eigenvectors
    phases = torch.polar(torch.ones(4, dtype=torch.float64), torch.arange(4.0, dtype=torch.float64))

    assert status("Torch.linalg.eig", "forward.output.1", (right * phases).to(torch.complex64), right) == "pass"


def test_other_vectors_are_not_judged():
    right = torch.linalg.eigh(SYMMETRIC).eigenvectors
    found = judge(Outcome("Torch.linalg.eigh", "Torch.linalg.eigh.0.forward.output.1", right.flip(-1).float(), right))

    assert str(found.status) == "SKIP"
    assert "not determined" in found.message


def test_values_and_other_apis_are_judged_as_ever():
    right = torch.linalg.eigvalsh(SYMMETRIC)

    assert status("Torch.linalg.eigh", "forward.output.0", -right.float(), right) == "error"
    assert status("Torch.linalg.inv", "forward.output.1", -MATRIX.float(), MATRIX) == "error"


def test_gradients_through_vectors_are_judged_only_where_they_agree():
    right = torch.ones(4, 4, dtype=torch.float64)

    assert status("Torch.linalg.eigh", "backward.output.0", right.float(), right) == "pass"
    assert status("Torch.linalg.eigh", "backward.output.0", -right.float(), right) == "SKIP"


def test_vectors_that_do_not_solve_their_equation_are_wrong():
    right = torch.linalg.eigh(SYMMETRIC).eigenvectors
    outcome = Outcome("Torch.linalg.eigh", "Torch.linalg.eigh.0.forward.output.1", right.flip(-1).float(), right)

    assert str(judge(replace(outcome, solves=lambda: True)).status) == "SKIP"
    assert str(judge(replace(outcome, solves=lambda: False)).status) == "error"
