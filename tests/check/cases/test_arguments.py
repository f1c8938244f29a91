"""Arguments rebuilt from a record: what was called is what is called again."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch.nn import functional as F

from tests.check.recorded_calls import recorded_cases
from torchparity.check.cases import CannotRun, DeviceWord, DtypeWord, Input, rebuilt
from torchparity.records import ValueLeaf

SQUARE = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "index",
    [
        (slice(None), slice(1, 3)),
        (0, 1),
        [0, 1],
        [2],
        (Ellipsis, 0),
        (None, 0),
        (0, [1, 2]),
        torch.tensor([0, 2]),
        (torch.tensor([0, 2]), torch.tensor([1, 1])),
        SQUARE > 3,
    ],
    ids=str,
)
def test_an_index_picks_the_same_elements_again(index):
    (case,) = (case for name, case in recorded_cases(lambda: SQUARE[index]).items() if "__getitem__" in name)

    args, _ = rebuilt(case).mapped(lambda leaf: leaf.tensor if isinstance(leaf, Input) else leaf)

    assert torch.equal(torch.Tensor.__getitem__(*args), SQUARE[index])


def test_recorded_values_are_used_where_there_are_any():
    case = recorded_cases(lambda: F.gelu(SQUARE))["Functional.gelu.0"]

    arguments = rebuilt(case)

    assert arguments.is_real
    assert torch.equal(arguments.args[0].tensor, SQUARE)


def test_without_values_they_are_drawn():
    case = recorded_cases(lambda: F.gelu(SQUARE), task="statistics")["Functional.gelu.0"]

    arguments = rebuilt(case)

    assert not arguments.is_real
    assert arguments.args[0].tensor.max() == 11


def test_words_for_devices_and_dtypes_wait_for_the_run_at_hand():
    case = recorded_cases(lambda: torch.zeros(2, device="cpu", dtype=torch.float16))["Torch.zeros.0"]

    assert rebuilt(case).kwargs == {"device": DeviceWord("cpu"), "dtype": DtypeWord(torch.float16)}


def test_an_object_without_a_value_cannot_be_rebuilt():
    case = recorded_cases(lambda: F.gelu(SQUARE))["Functional.gelu.0"]
    strange = msgspec.structs.replace(case.forward, input_args=[ValueLeaf("net.Config")])

    with pytest.raises(CannotRun, match=r"argument 0 is a net\.Config"):
        rebuilt(type(case)(case.name, case.api, case.operator, strange, None, case.part))
