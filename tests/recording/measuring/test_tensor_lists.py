"""Lists of many tensors are seen as their tensors would be, one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.statistics import assert_same
from torchparity import from_torch, open_run
from torchparity.kernels import reference
from torchparity.recording import capture
from torchparity.recording.measuring import storage_generations
from torchparity.recording.measuring.measurement_cache import MeasurementCache
from torchparity.recording.measuring.measurer import MeasurementOptions

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
    monkeypatch.setattr(storage_generations, "_UNSWEPT", 0)  # else it takes many large tensors
    monkeypatch.setattr(storage_generations, "_UNSWEPT_EACH", 0)
    factors = [float(number) for number in range(60)]
    with capture(tmp_path, level="L1"):
        for factor in factors:
            torch.stack(torch._foreach_mul([torch.ones(300_000) for _ in range(8)], factor))

    records = open_run(tmp_path).part().records
    made = [records[f"Torch._foreach_mul.{number}.forward"].output[0] for number in range(60)]
    given = [records[f"Torch.stack.{number}.forward"].input_args[0][0] for number in range(60)]
    assert [leaf.statistics.max for leaf in made] == factors
    assert [leaf.statistics.max for leaf in given] == factors


def plain():
    return [torch.randn(3, index + 1) for index in range(COUNT)]


ODD_LISTS = {
    "plain": plain,
    "one memory": lambda: list(torch.randn(COUNT, 5).unbind()),
    "one tensor many times": lambda: [torch.randn(4)] * COUNT,
    "of several dtypes": lambda: [*plain(), torch.arange(5), torch.ones(3, dtype=torch.float64)],
    "not contiguous": lambda: [torch.randn(4, index + 2).t() for index in range(COUNT)],
    "an empty one": lambda: [*plain(), torch.empty(0)],
    "of scalars": lambda: [torch.tensor(float(index)) for index in range(COUNT)],
    "of parts": lambda: [torch.randn(20)[3 : 4 + index] for index in range(COUNT)],
    "negative": lambda: [torch.randn(4, dtype=torch.complex64).conj().imag for _ in range(COUNT)],
    "of NumPy": lambda: [torch.from_numpy(np.full(3, index, np.float32)) for index in range(COUNT)],
    "complex": lambda: [torch.randn(3, dtype=torch.complex64).conj() for _ in range(COUNT)],
    "not finite": lambda: [torch.tensor([torch.nan, torch.inf, index]) for index in range(COUNT)],
    "parameters": lambda: [torch.nn.Parameter(torch.randn(3)) for _ in range(COUNT)],
    "of meta": lambda: [torch.empty(3, device="meta") for _ in range(COUNT)],
}


@pytest.mark.parametrize("kind", ODD_LISTS)
def test_a_list_of_any_kind_is_what_its_tensors_are(kind):
    tensors = ODD_LISTS[kind]()
    measurements = MeasurementCache(MeasurementOptions(), exact=True)

    seen = measurements.observe_list(tensors)
    alone = [measurements.observe(tensor) for tensor in tensors]
    measurements.finish_step().wait()

    for tensor, entry, other in zip(tensors, seen.tensors, alone, strict=True):
        assert (entry.dtype, entry.shape) == (tensor.dtype, tuple(tensor.shape))
        assert entry.requires_grad == tensor.requires_grad
        assert (entry.measurement is None) == tensor.is_meta
        if entry.measurement is not None:
            wanted = reference.statistics(from_torch(tensor.detach()))
            assert_same(entry.measurement.statistics, wanted, 1e-6)
            assert_same(other.measurement.statistics, wanted, 1e-6)


def test_what_a_list_showed_is_not_measured_again_alone_or_in_another_list():
    tensors = plain()
    measurements = MeasurementCache(MeasurementOptions(), exact=False)

    seen = measurements.observe_list(tensors).tensors
    alone = [measurements.observe(tensor) for tensor in tensors]
    views = [measurements.observe(tensor.view(-1)) for tensor in tensors]
    reversed_list = measurements.observe_list(tensors[::-1]).tensors[::-1]

    for shown in (alone, views, reversed_list):
        assert [entry.measurement for entry in shown] == [entry.measurement for entry in seen]
        assert all(one.measurement is other.measurement for one, other in zip(shown, seen, strict=True))


def test_tensors_seen_alone_are_not_measured_again_in_a_list():
    tensors = plain()
    measurements = MeasurementCache(MeasurementOptions(), exact=False)

    alone = [measurements.observe(tensor) for tensor in tensors[:5]]
    seen = measurements.observe_list(tensors).tensors

    assert all(one.measurement is other.measurement for one, other in zip(alone, seen, strict=False))
