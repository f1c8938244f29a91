"""The definition of every statistic, against direct float64 NumPy and zlib."""

from __future__ import annotations

import math
import tracemalloc
import zlib

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from torchparity import HostTensor
from torchparity.kernels import reference
from torchparity.kernels.checksums import crc_checksum
from torchparity.kernels.reference import profile

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def statistics(values, dtype=np.float32):
    return reference.statistics(HostTensor.from_numpy(np.asarray(values).astype(dtype)))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_float_statistics_are_float64_numpy(dtype, data):
    with np.errstate(over="ignore"):
        array = data.draw(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))).astype(dtype)
    kept = reference.statistics(HostTensor.from_numpy(array))
    exact = array.astype(np.float64)
    finite = exact[np.isfinite(exact)]

    assert kept.nan_count == np.isnan(exact).sum()
    assert kept.inf_count == (exact == np.inf).sum()
    assert kept.negative_inf_count == (exact == -np.inf).sum()
    assert kept.zero_count == (exact == 0).sum()
    if finite.size:
        assert kept.finite_max == finite.max()
        assert kept.finite_min == finite.min()
        assert kept.finite_mean == pytest.approx(finite.mean(), rel=1e-12, abs=1e-300)
        assert kept.finite_norm == pytest.approx(np.linalg.norm(finite), rel=1e-12)
    else:
        assert kept.finite_max is None
    if exact.size:
        with np.errstate(invalid="ignore"):
            for value, expected in (
                (kept.max, exact.max()),
                (kept.min, exact.min()),
                (kept.mean, exact.mean()),
                (kept.norm, np.linalg.norm(exact)),
            ):
                assert value == pytest.approx(expected, rel=1e-12, abs=1e-300, nan_ok=True)


def test_an_empty_tensor_has_no_values_and_counts_of_zero():
    kept = statistics(np.empty((0, 3)))

    assert (kept.max, kept.min, kept.mean, kept.norm) == (None, None, None, None)
    assert (kept.nan_count, kept.zero_count) == (0, 0)


def test_the_norm_of_a_negative_scalar_is_positive():
    assert statistics(-2.75).norm == 2.75


def test_bool_has_a_mean_and_no_norm():
    kept = statistics([True, True, False, True], bool)

    assert (kept.max, kept.min, kept.mean, kept.norm) == (True, False, 0.75, None)


def test_integers_keep_every_digit():
    kept = statistics([2**62 + 1, -(2**62) - 1], np.int64)

    assert (kept.max, kept.min) == (2**62 + 1, -(2**62) - 1)
    assert kept.norm == pytest.approx(math.hypot(2**62, 2**62))


def test_complex_numbers_count_by_their_modulus():
    kept = statistics([3 + 4j, 0j], np.complex64)

    assert (kept.max, kept.min, kept.mean, kept.norm) == (5.0, 0.0, 2.5, 5.0)


def test_finite_halves_do_not_overflow_the_norm():
    assert statistics([60000.0] * 4, np.float16).norm == 2 * float(np.float16(60000))


@pytest.mark.parametrize("value", [1e300, 1e-300])
def test_doubles_at_the_ends_of_their_range_do_not_overflow(value):
    assert statistics([value] * 4, np.float64).norm == pytest.approx(2 * value)
    assert statistics([1.7e308] * 4, np.float64).mean == pytest.approx(1.7e308)


def test_one_nan_in_a_million_leaves_the_finite_values():
    values = np.arange(1_500_000, dtype=np.float32)
    values[1_200_000] = np.nan
    kept = statistics(values)

    assert math.isnan(kept.max) and math.isnan(kept.norm)
    assert (kept.nan_count, kept.finite_max) == (1, 1_499_999)


@given(hnp.arrays(np.int16, hnp.array_shapes(max_dims=2, min_side=0)))
def test_the_checksum_is_crc_32(array):
    assert crc_checksum(HostTensor.from_numpy(array)) == f"{zlib.crc32(array.tobytes()):08x}"
    assert crc_checksum(HostTensor.from_numpy(array.T)) == f"{zlib.crc32(array.T.tobytes()):08x}"


def test_the_profile_says_where_the_extremes_sit(monkeypatch):
    monkeypatch.setattr(reference, "_BLOCK", 7)  # several blocks in a small tensor
    values = np.zeros((5, 6), np.float32)
    values[1, 2], values[4, 5], values[3, 0], values[2, 2] = 9, -9, np.nan, np.inf

    seen = profile(HostTensor.from_numpy(values))

    assert seen.places == {"max": [1, 2], "min": [4, 5], "nan": [3, 0], "inf": [2, 2]}
    assert sum(seen.histogram_counts) == 28
    assert (seen.histogram_edges[0], seen.histogram_edges[-1]) == (-9, 9)


def test_nan_and_infinities_are_never_the_place_of_an_extreme():
    assert profile(HostTensor.from_numpy(np.array([np.nan, 5, 1]))).places == {"max": [1], "min": [2], "nan": [0]}
    assert profile(HostTensor.from_numpy(np.array([np.inf, 1, -np.inf]))).places == {
        "max": [1],
        "min": [1],
        "inf": [0],
        "-inf": [2],
    }


def test_the_profile_of_a_constant_and_of_nothing():
    assert profile(HostTensor.from_numpy(np.full(4, 2.0))).histogram_counts == [4]
    assert profile(HostTensor.from_numpy(np.full(4, np.nan))).histogram_counts == []
    assert profile(HostTensor.from_numpy(np.empty((0,)))).places == {}


def test_packed_fp4_is_unpacked():
    packed = HostTensor("torch.float4_e2m1fn_x2", np.array([0x21, 0xF7], np.uint8).view("V1"))

    assert packed.numbers().tolist() == [0.5, 1.0, 6.0, -6.0]
    assert reference.statistics(packed).min == -6.0


def test_infinite_and_signalling_values_count_as_what_they_are():
    pair = np.array([(1.0, np.inf), (np.inf, np.nan)], dtype=[("real", np.float16), ("imag", np.float16)])
    signalling = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)

    kept = reference.statistics(HostTensor("torch.complex32", pair))

    assert (kept.nan_count, kept.inf_count) == (1, 1)
    assert reference.statistics(HostTensor.from_numpy(signalling)).nan_count == 1


def test_an_expanded_tensor_takes_no_memory_of_its_own():
    tracemalloc.start()
    expanded = np.broadcast_to(np.float32(1), (1 << 14, 1 << 10))
    kept = reference.statistics(HostTensor.from_numpy(expanded))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept.norm == pytest.approx(2**12)
    assert peak < expanded.size * 4


def test_complex_halves_are_computed_with():
    pair = np.array([(3.0, 4.0)], dtype=[("real", np.float16), ("imag", np.float16)])

    assert reference.statistics(HostTensor("torch.complex32", pair)).norm == 5.0
