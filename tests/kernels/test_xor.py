"""The xor checksum is that of the bytes."""

from __future__ import annotations

import pytest
import torch

from torchparity.kernels.checksums import xor_checksum
from torchparity.tensors.torch_tensors import from_torch


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool]
)
@pytest.mark.parametrize("size", [0, 1, 3, 7, 8, 9, 1000])
def test_the_xor_checksum_is_that_of_the_bytes(dtype, size):
    tensor = (torch.randn(size) * 10).to(dtype)
    content = tensor.view(torch.uint8).numpy().tobytes()

    expected = 0
    for start in range(0, len(content), 8):
        expected ^= int.from_bytes(content[start : start + 8], "little")

    assert xor_checksum(from_torch(tensor)) == f"0x{expected:016x}"
