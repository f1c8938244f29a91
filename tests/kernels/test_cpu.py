"""The compiled kernel equals the definition, and float64 NumPy, for every dtype and layout."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.statistics import assert_same, random_tensor
from torchparity import HostTensor
from torchparity.kernels import reference
from torchparity.kernels.checksums import crc_checksum
from torchparity.kernels.cpu import CpuKernel
from torchparity.tensors import DTYPES

KERNELS = {"fast": CpuKernel(), "exact": CpuKernel(exact=True)}


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("name", KERNELS)
@given(shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9), seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_arbitrary_bits_of_every_dtype(dtype, name, shape, seed):
    tensor = random_tensor(dtype, shape, seed)

    assert_same(KERNELS[name].statistics(tensor), reference.statistics(tensor), 1e-6 if name == "fast" else 1e-12)


@pytest.mark.parametrize("size", [1, 2047, 2048, 2049, 300_000, 1_000_003])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes_around_blocks_and_cores(size, name, dtype):
    values = np.random.default_rng(size).normal(size=size).astype(dtype)
    values[size // 2] = 0
    tensor = HostTensor.from_numpy(values)

    kept, exact = KERNELS[name].statistics(tensor), values.astype(np.float64)

    assert (kept.max, kept.min, kept.zero_count) == (exact.max(), exact.min(), 1)
    assert kept.norm == pytest.approx(np.linalg.norm(exact), rel=1e-7 if name == "fast" else 1e-13)
    assert kept.mean == pytest.approx(exact.mean(), abs=1e-7 if name == "fast" else 1e-15)


@pytest.mark.parametrize("place", [0, 2048, 499_999])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.float32(3e38)])
def test_one_strange_number_among_many(place, value):
    values = np.random.default_rng(0).normal(size=500_000).astype(np.float32)
    values[place] = value

    assert_same(
        CpuKernel().statistics(HostTensor.from_numpy(values)), reference.statistics(HostTensor.from_numpy(values)), 1e-7
    )


def test_any_layout_gives_the_same():
    base = np.random.default_rng(0).normal(size=(4, 6, 8)).astype(np.float32)
    for view in (base, base.T, base.transpose(1, 0, 2), base[:, ::2], base[::-1], np.broadcast_to(base[0], (3, 6, 8))):
        tensor = HostTensor.from_numpy(view)
        assert_same(CpuKernel().statistics(tensor), reference.statistics(tensor), 1e-7)
        assert crc_checksum(tensor) == f"{zlib.crc32(np.ascontiguousarray(view)):08x}"
