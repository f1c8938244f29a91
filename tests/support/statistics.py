"""Statistics held to those of the definition, and tensors of arbitrary bits to compute them of."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from torchparity import HostTensor
from torchparity.records import Statistics
from torchparity.tensors import DTYPES

FLOOR = 1e-6  # of the norm, which sums of products of signs in float32 keep within


def random_tensor(dtype: str, shape: tuple[int, ...], seed: int) -> HostTensor:
    """Return a tensor of arbitrary bit patterns: nan payloads, infinities and subnormals come up."""
    raw = np.random.default_rng(seed).integers(0, 256, math.prod(shape) * DTYPES[dtype].itemsize, np.uint8)
    raw = raw & 1 if dtype == "torch.bool" else raw
    return HostTensor(dtype, raw.view(DTYPES[dtype]).reshape(shape))


def assert_same(ours: Statistics, wanted: Statistics, relative: float) -> None:
    """Assert that counts are equal and numbers as close as `relative` says."""
    for field, expected in msgspec.structs.asdict(wanted).items():
        value = getattr(ours, field)
        if field == "sketch":
            assert_same_sketch(value, expected, max(relative, FLOOR) * _norm(wanted))
            continue
        if expected is None or isinstance(expected, (bool, int)):
            assert value == expected, field
        else:
            # A mean of values that cancel is held to their size, not to its own.
            scale = (wanted.finite_norm or 0) if field.endswith("mean") else 0
            assert value == pytest.approx(expected, rel=relative, abs=relative * scale, nan_ok=True), field


def assert_same_sketch(ours: bytes | None, wanted: bytes | None, allowed: float) -> None:
    """Assert that two sketches are of one width and no sum of one is further from the other's than allowed."""
    if ours is None or wanted is None:
        assert ours is wanted
        return
    assert len(ours) == len(wanted)
    kind = "<f4" if len(wanted) == 32 else "<f8"
    ours_sums, wanted_sums = (np.frombuffer(sketch, kind).astype(np.float64) for sketch in (ours, wanted))
    assert np.abs(ours_sums - wanted_sums).max() <= allowed


def _norm(statistics: Statistics) -> float:
    if statistics.finite_norm is not None:
        return float(statistics.finite_norm)
    return 0.0 if statistics.norm is None else math.inf
