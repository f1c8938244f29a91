"""torch's tensors and dtypes as host tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchparity import HostTensor, from_torch, to_torch
from torchparity.tensors import DTYPES


def test_the_table_of_dtypes_covers_torch():
    named = {str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)}
    sub_byte = {f"torch.{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    # Quantized, bits and sub-byte integer types hold no values of their own.
    without_values = sub_byte | {name for name in named if any(part in name for part in ("qint", "quint", "bits"))}

    assert named - without_values <= set(DTYPES)
    assert set(DTYPES) - named <= {"torch.bcomplex32", "torch.float4_e2m1fn_x2", "torch.float8_e8m0fnu"}  # newer ones


@pytest.mark.parametrize("shape", [(0,), (2, 0), (), (3,)])
def test_a_dtype_that_torch_supports_experimentally_brings_no_warning(shape):
    torch.set_warn_always(True)  # else once in a process, and another test may have been first
    try:
        tensor = to_torch(HostTensor("torch.complex32", np.zeros(shape, DTYPES["torch.complex32"])))
    finally:
        torch.set_warn_always(False)

    assert tensor.dtype == torch.complex32 and tensor.shape == shape


def test_looking_at_a_tensor_leaves_its_storage_resizable():
    tensor = torch.ones(4)

    from_torch(tensor)
    tensor.untyped_storage().resize_(0)

    assert tensor.untyped_storage().nbytes() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_zeros_that_have_no_memory_have_values_all_the_same(dtype):
    zeros = torch._efficientzerotensor((2, 3), dtype=dtype)

    assert torch.equal(to_torch(from_torch(zeros)), torch.zeros(2, 3, dtype=dtype))
    assert from_torch(zeros.t()).shape == (3, 2)
    assert zeros._is_zerotensor()
