"""torch's tensors and dtypes as host tensors."""

from __future__ import annotations

import torch

from torchparity import from_torch
from torchparity.tensors import DTYPES


def test_the_table_of_dtypes_covers_torch():
    named = {str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)}
    sub_byte = {f"torch.{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    # Quantized, bits and sub-byte integer types hold no values of their own.
    without_values = sub_byte | {name for name in named if any(part in name for part in ("qint", "quint", "bits"))}

    assert named - without_values <= set(DTYPES)
    assert set(DTYPES) - named <= {"torch.bcomplex32", "torch.float4_e2m1fn_x2", "torch.float8_e8m0fnu"}  # newer ones


def test_looking_at_a_tensor_leaves_its_storage_resizable():
    tensor = torch.ones(4)

    from_torch(tensor)
    tensor.untyped_storage().resize_(0)

    assert tensor.untyped_storage().nbytes() == 0
