"""Lists of many tensors are seen as their tensors would be, one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchparity import open_run
from torchparity.capture import _identity, capture

COUNT = 12


def step(tensors):
    """What a foreach optimizer does: the same lists again and again, changed in place and through temporaries."""
    state = [torch.zeros_like(tensor) for tensor in tensors]
    for factor in (0.5, 0.25):
        torch._foreach_lerp_(state, tensors, factor)
        root = torch._foreach_sqrt(torch._foreach_mul(state, state))
        torch._foreach_add_(root, 1.0)
        torch._foreach_addcdiv_(tensors, state, root, value=-0.1)


def recorded(path, task, **settings):
    torch.manual_seed(0)
    tensors = [torch.randn(3, index + 1) for index in range(COUNT)]
    with capture(path, level="L1", task=task, settings=settings):
        step(tensors)
    return open_run(path).part()


@pytest.mark.parametrize("summary", ["statistics", "md5"])
def test_a_list_has_the_statistics_of_its_tensors(summary, tmp_path):
    part = recorded(tmp_path / "bulk", "statistics", statistics={"summary_mode": summary})
    single = recorded(tmp_path / "single", "tensor", tensor={"summary_mode": summary})  # copies each, one by one

    leaves = {f"{record.name}.{item.name}": item.leaf for record in part.records.values() for item in record.items()}
    wanted = {f"{record.name}.{item.name}": item.leaf for record in single.records.values() for item in record.items()}

    assert len(leaves) > 10 * COUNT
    assert leaves.keys() == wanted.keys()
    for name, leaf in leaves.items():
        for field in ("dtype", "shape", "statistics", "checksum", "requires_grad", "type"):
            assert getattr(leaf, field, None) == getattr(wanted[name], field, None), (name, field)


def test_memory_that_changes_behind_the_version_is_looked_at_again(tmp_path):
    tensors = [torch.zeros(4) for _ in range(COUNT)]
    with capture(tmp_path, level="L1"):
        torch._foreach_exp(tensors)
        for tensor in tensors:
            tensor.data.fill_(1)
        torch._foreach_exp(tensors)

    records = open_run(tmp_path).part().records
    assert records["Torch._foreach_exp.0.forward"].input_args[0][5].statistics.max == 0
    assert records["Torch._foreach_exp.1.forward"].input_args[0][5].statistics.max == 1


def test_a_temporary_list_in_the_memory_of_another_is_another(tmp_path):
    tensors = [torch.full((512,), 2.0) for _ in range(COUNT)]
    with capture(tmp_path, level="L1"):
        for factor in (1.0, 2.0, 3.0):
            torch._foreach_neg(torch._foreach_mul(tensors, factor))

    records = open_run(tmp_path).part().records
    seen = [records[f"Torch._foreach_neg.{number}.forward"].input_args[0][0].statistics.max for number in range(3)]
    assert seen == [2, 4, 6]


def test_memory_of_numpy_in_a_list_is_looked_at_again(tmp_path):
    arrays = [np.zeros(4, np.float32) for _ in range(COUNT)]
    tensors = [torch.from_numpy(array) for array in arrays]
    with capture(tmp_path, level="L1"):
        torch.stack(tensors)
        for array in arrays:
            array += 7
        torch.stack(tensors)

    records = open_run(tmp_path).part().records
    assert records["Torch.stack.0.forward"].input_args[0][5].statistics.max == 0
    assert records["Torch.stack.1.forward"].input_args[0][5].statistics.max == 7


def test_a_list_of_negatives_is_not_its_origin(tmp_path):
    tensors = [torch.full((2,), 3.0) for _ in range(COUNT)]
    with capture(tmp_path, level="L1"):
        torch.stack(tensors)
        torch.stack([torch._neg_view(tensor) for tensor in tensors])

    records = open_run(tmp_path).part().records
    assert records["Torch.stack.0.forward"].input_args[0][0].statistics.max == 3
    assert records["Torch.stack.1.forward"].input_args[0][0].statistics.max == -3


def test_a_list_that_others_write_to_through_the_same_memory_is_looked_at_again(tmp_path):
    tensors = [torch.zeros(4) for _ in range(COUNT)]
    twins = [tensor.data for tensor in tensors]  # which count versions of their own
    with capture(tmp_path, level="L1"):
        torch._foreach_exp(tensors)
        torch._foreach_add_(twins, 1.0)
        torch.exp(tensors[3])
        torch._foreach_add_(twins, 1.0)
        torch._foreach_exp(tensors)

    records = open_run(tmp_path).part().records
    assert records["Torch._foreach_exp.0.forward"].input_args[0][3].statistics.max == 0
    assert records["Torch.exp.0.forward"].input_args[0].statistics.max == 1
    assert records["Torch._foreach_exp.1.forward"].input_args[0][3].statistics.max == 2


def test_a_list_in_memory_that_was_swept_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr(_identity, "_UNSWEPT", 0)  # else it takes many large tensors
    monkeypatch.setattr(_identity, "_UNSWEPT_EACH", 0)
    factors = [float(number) for number in range(60)]
    with capture(tmp_path, level="L1"):
        for factor in factors:
            torch.stack(torch._foreach_mul([torch.ones(300_000) for _ in range(8)], factor))

    records = open_run(tmp_path).part().records
    made = [records[f"Torch._foreach_mul.{number}.forward"].output[0] for number in range(60)]
    given = [records[f"Torch.stack.{number}.forward"].input_args[0][0] for number in range(60)]
    assert [leaf.statistics.max for leaf in made] == factors
    assert [leaf.statistics.max for leaf in given] == factors
