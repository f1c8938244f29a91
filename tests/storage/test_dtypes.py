"""Dtypes of older and newer torch: what the table has is stored, what it does not have breaks nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from torchparity import HostTensor, Record, RunWriter, TensorLeaf, open_run, to_torch
from torchparity.errors import ConfigError
from torchparity.kernels.cpu import CpuKernel
from torchparity.kernels.pairs import compare_pair
from torchparity.recording import capture
from torchparity.tensors import DTYPES

UNKNOWN = sorted(
    {str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)} - set(DTYPES),
)


def pairs(*numbers):
    array = np.zeros(len(numbers), DTYPES["torch.bcomplex32"])
    array["real"] = [number.real for number in numbers]
    array["imag"] = [number.imag for number in numbers]
    return HostTensor("torch.bcomplex32", array)


def test_complex_numbers_of_bfloat16_are_pairs():
    tensor = pairs(3 + 4j, complex(0, float("inf")))

    assert DTYPES["torch.bcomplex32"].itemsize == 2 * np.dtype(ml_dtypes.bfloat16).itemsize
    assert tensor.numbers().tolist() == [3 + 4j, complex(0, float("inf"))]
    assert pairs(3 + 4j).preview() == "[3.+4.j]"
    assert CpuKernel().statistics(pairs(3 + 4j)).norm == 5.0
    assert compare_pair(pairs(3 + 4j, 1), pairs(3 - 4j, 1)).max_abs == 8.0


def test_complex_numbers_of_bfloat16_come_back_bit_for_bit(tmp_path):
    tensor = pairs(1 + 2j, -3.5j)
    leaf = TensorLeaf(dtype=tensor.dtype, shape=tensor.shape)
    with RunWriter(tmp_path, task="tensor") as writer:
        writer.start_step(0)
        writer.add(Record(name="Torch.abs.0.forward", direction="forward", input_args=[leaf]), {"input.0": tensor})

    part = open_run(tmp_path).part()
    ((_, read),) = part.tensors()
    assert part.tensor(read).raw().tobytes() == tensor.raw().tobytes()
    assert part.verify() == []


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_a_dtype_that_this_torch_lacks_is_refused_in_words(name):
    tensor = HostTensor(name, np.zeros(2, DTYPES[name]))
    if hasattr(torch, name.removeprefix("torch.")):
        assert str(to_torch(tensor).dtype) == name
    else:
        with pytest.raises(ConfigError, match=f"has no dtype {name.removeprefix('torch.')}"):
            to_torch(tensor)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_a_tensor_of_an_unknown_dtype_is_recorded_without_values(tmp_path, name, task):
    try:
        tensor = torch.empty(4, dtype=getattr(torch, name.removeprefix("torch.")))
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch makes no tensor of it")
    with capture(tmp_path, task=task, views=True, summary_mode="md5"):
        viewed = tensor.view(2, 2)

    assert viewed.shape == (2, 2)
    part = open_run(tmp_path).part()
    leaf = part.record("Tensor.view.0.forward").input_args[0]
    assert (leaf.dtype, leaf.shape, leaf.statistics, leaf.data_name) == (name, (4,), None, None)
    assert part.verify() == []
