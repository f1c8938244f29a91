"""Eigenvectors and singular vectors through the check: turned ones pass, wrong ones fail."""

from __future__ import annotations

import pytest
import torch

from tests.check.faulty_results import judged, normal, of_output
from torchparity.check.judging import Status

MATRIX = normal(6, 6)
WORK = {
    "Torch.linalg.eigh.0": (lambda: torch.linalg.eigh(MATRIX + MATRIX.mT), "1"),
    "Torch.linalg.eig.0": (lambda: torch.linalg.eig(MATRIX), "1"),
    "Torch.linalg.svd.0": (lambda: torch.linalg.svd(MATRIX[:4], full_matrices=False), "0"),
    "Torch.svd.0": (lambda: torch.svd(MATRIX[:, :4]), "2"),
}
WRONG = {
    "zero": torch.zeros_like,
    "twice-as-long": lambda vectors: 2 * vectors,
    "nan": lambda vectors: vectors * torch.nan,
    "another-order": lambda vectors: vectors.roll(1, -1),
}


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("name", WORK)
def test_vectors_that_are_wrong_fail(name, fault):
    work, place = WORK[name]

    assert judged(work, name).forward is Status.PASS
    assert judged(work, name, of_output(WRONG[fault], place)).forward is Status.ERROR


@pytest.mark.parametrize("name", WORK)
def test_vectors_of_another_sign_pass(name):
    work, place = WORK[name]

    found = judged(work, name, of_output(lambda vectors: -vectors, place))
    assert {row.status for row in found.details} == {Status.PASS}


def test_vectors_that_may_be_any_are_not_failed():
    turned = of_output(lambda _: torch.linalg.qr(normal(4, 4)).Q, "1")

    assert judged(lambda: torch.linalg.eigh(torch.eye(4)), "Torch.linalg.eigh.0", turned).forward is Status.PASS
