"""Leaves of records: what is kept of arguments that are no tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchparity import TensorLeaf
from torchparity.descriptions import describe
from torchparity.records import ValueLeaf


@pytest.mark.parametrize(
    ("value", "leaf"),
    [
        (3, ValueLeaf("int", 3)),
        (True, ValueLeaf("bool", True)),
        (1.5, ValueLeaf("float", 1.5)),
        ("mean", ValueLeaf("str", "mean")),
        (None, None),
        (1 + 2j, ValueLeaf("complex", [1.0, 2.0])),
        (slice(0, 2), ValueLeaf("slice", [0, 2, None])),
        (..., ValueLeaf("Ellipsis")),
        (torch.float16, ValueLeaf("torch.dtype", "torch.float16")),
        (torch.device("cpu"), ValueLeaf("torch.device", "cpu")),
        (torch.Size([2, 3]), ValueLeaf("torch.Size", [2, 3])),
        (torch.channels_last, ValueLeaf("torch.memory_format", "torch.channels_last")),
        (np.float32(1.5), ValueLeaf("float32", 1.5)),
        (np.float64(1.5), ValueLeaf("float64", 1.5)),
        (np.int8(-3), ValueLeaf("int8", -3)),
        (object(), ValueLeaf("builtins.object")),
        (np.ones((2, 3), np.float32), TensorLeaf(type="numpy.ndarray", dtype="float32", shape=(2, 3))),
        (np.add, ValueLeaf("numpy.ufunc")),
        (slice(np.int64(1), None), ValueLeaf("slice", [1, None, None])),
    ],
)
def test_arguments_that_are_no_tensors_have_a_leaf(value, leaf):
    assert describe(value) == leaf
