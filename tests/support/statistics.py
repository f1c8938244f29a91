"""Statistics held to those of the definition, and tensors of arbitrary bits to compute them of."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from torchparity import HostTensor
from torchparity.records import Statistics
from torchparity.tensors import DTYPES


def random_tensor(dtype: str, shape: tuple[int, ...], seed: int) -> HostTensor:
    """Return a tensor of arbitrary bit patterns: nan payloads, infinities and subnormals come up."""
    raw = np.random.default_rng(seed).integers(0, 256, math.prod(shape) * DTYPES[dtype].itemsize, np.uint8)
    raw = raw & 1 if dtype == "torch.bool" else raw
    return HostTensor(dtype, raw.view(DTYPES[dtype]).reshape(shape))


def assert_same(ours: Statistics, wanted: Statistics, relative: float) -> None:
    """Assert that counts are equal and numbers as close as `relative` says."""
    for field, expected in msgspec.structs.asdict(wanted).items():
        value = getattr(ours, field)
        if expected is None or isinstance(expected, (bool, int)):
            assert value == expected, field
        else:
            # A mean of values that cancel is held to their size, not to its own.
            scale = (wanted.finite_norm or 0) if field.endswith("mean") else 0
            assert value == pytest.approx(expected, rel=relative, abs=relative * scale, nan_ok=True), field
