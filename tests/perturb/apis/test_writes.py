"""Functions that only may write: copied where they do."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from torchparity.calls import Listener, listening
from torchparity.perturb.apis.writes import may_write


class Asking(Listener):
    def __init__(self):
        self.answers = []

    def before(self, call):
        self.answers.append(may_write(call))


VALUES = torch.randn(2, 4)
TOKENS, TABLE = torch.tensor([0, 1]), torch.randn(3, 4)


@pytest.mark.parametrize(
    ("call", "writes"),
    [
        (lambda: F.relu(VALUES.clone()), False),
        (lambda: F.relu(VALUES.clone(), True), True),
        (lambda: F.relu(VALUES.clone(), inplace=True), True),
        (lambda: F.relu_(VALUES.clone()), True),
        (lambda: F.dropout(VALUES.clone(), 0.5, True, False), False),
        (lambda: F.embedding(TOKENS, TABLE), False),
        (lambda: F.embedding(TOKENS, TABLE, max_norm=1.0), True),
        (lambda: F.batch_norm(VALUES, torch.zeros(4), torch.ones(4), training=True), True),
        (lambda: torch.add(VALUES, 1, out=torch.empty(2, 4)), True),
        (lambda: VALUES.clone().add_(1), True),
        (lambda: torch.exp(VALUES), False),
    ],
)
def test_what_may_write_is_told_by_its_arguments(call, writes):
    with listening(asking := Asking()):
        call()

    assert asking.answers[-1] is writes
