"""The pair kernel equals the definition in plain float64 NumPy, for every dtype and every place of a nan."""

from __future__ import annotations

import math
import mmap
import zlib
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.statistics import random_tensor
from torchparity import HostTensor
from torchparity.kernels import pairs
from torchparity.kernels.numba_loops import pair_blocks
from torchparity.kernels.pairs import compare_checked, compare_pair
from torchparity.tensors import DTYPES, release_pages

EPSILON = {"torch.float16": 2**-10, "torch.complex32": 2**-10, "torch.float64": 2**-52, "torch.complex128": 2**-52}
BLOCK = pair_blocks.BLOCK
LARGE = 300_001
REAL = sorted(name for name in DTYPES if not name.startswith(("torch.complex", "torch.bcomplex", "torch.float4")))


def exact_norm(values) -> float:
    """Return the norm without leaving float64 on the way."""
    return math.hypot(*values.view(np.float64).tolist())


def direction(values):
    """Return the vector of length 1."""
    parts = values.view(np.float64)
    scaled = parts / np.abs(parts).max()
    return (scaled / np.linalg.norm(scaled)).view(values.dtype)


def definition(candidate: HostTensor, baseline: HostTensor) -> dict[str, object]:
    """Return the metrics, one line of NumPy for each."""
    kind = np.complex128 if "complex" in candidate.dtype + baseline.dtype else np.float64
    left, right = (side.numbers().astype(kind).reshape(-1) for side in (candidate, baseline))
    strange = ~(np.isfinite(left) & np.isfinite(right))
    alike = strange & ((left == right) | (np.isnan(left) & np.isnan(right)))
    left, right = (np.where(alike, 0, side)[alike | ~strange] for side in (left, right))
    whole = baseline.array.dtype.kind in "iub"
    epsilon = 2**-52 if whole else EPSILON.get(baseline.dtype, 2**-23)
    error = np.abs(left - right)
    relative = error / np.where(right == 0, epsilon, np.abs(right))
    norms = exact_norm(left), exact_norm(right)
    cosine = 1.0 if norms == (0, 0) else None
    if all(norms):
        cosine = np.vdot(direction(right), direction(left)).real
    return {
        "count": strange.size,
        "cosine": cosine,
        "euclidean": exact_norm(left - right),
        "max_abs": error.max(initial=0),
        "max_relative": relative.max(initial=0),
        "within_1e3": (relative < 0.001).mean() if relative.size else 1.0,
        "within_5e3": (relative < 0.005).mean() if relative.size else 1.0,
        "mismatched": (strange & ~alike).sum(),
        "candidate_is_zero": norms[0] == 0,
        "baseline_is_zero": norms[1] == 0,
        "has_nonfinite": strange.any(),
    }


def assert_as_defined(candidate: HostTensor, baseline: HostTensor, **options: int) -> None:
    with np.errstate(all="ignore"):
        wanted = definition(candidate, baseline)
    ours = msgspec.structs.asdict(compare_pair(candidate, baseline, **options))
    for name in ("cosine", "euclidean", "max_abs", "max_relative"):
        value, expected = ours.pop(name), wanted.pop(name)
        if expected is None:
            assert value is None
        else:
            # A cosine is held to the size of the vectors: what cancels has no digits of its own.
            assert value == pytest.approx(expected, rel=1e-12, abs=1e-13 if name == "cosine" else 0), name
    assert ours == wanted


def mixed(tensor: HostTensor, other: HostTensor, share: float, seed: int) -> HostTensor:
    """Return the tensor with some elements of another one of its dtype."""
    taken = np.random.default_rng(seed).random(tensor.shape) < share
    return HostTensor(tensor.dtype, np.where(taken, other.array, tensor.array).astype(tensor.array.dtype))


def normal(size: int, dtype: str = "torch.float32", seed: int = 0) -> HostTensor:
    return HostTensor(dtype, np.random.default_rng(seed).normal(size=size).astype(DTYPES[dtype]))


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@given(
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9),
    seed=st.integers(0, 99),
    share=st.sampled_from([0, 0.1, 1]),
)
@settings(max_examples=25, deadline=None)
def test_arbitrary_bits_of_every_dtype(dtype, shape, seed, share):
    baseline = random_tensor(dtype, shape, seed)
    candidate = mixed(baseline, random_tensor(dtype, shape, seed + 1), share, seed)

    assert_as_defined(candidate, baseline)


@pytest.mark.parametrize("dtype", ["torch.float16", "torch.bfloat16", "torch.float32", "torch.float64"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_floats_with_zeros_nans_and_infinities(dtype, data):
    special = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 1.001, 1000.0, 1001.0, 1e-7, -3.0])
    pairs = data.draw(st.lists(st.tuples(special, special | st.none()), max_size=12))
    left = np.array([first for first, _ in pairs]).astype(DTYPES[dtype])
    right = np.array([first if second is None else second for first, second in pairs]).astype(DTYPES[dtype])

    assert_as_defined(HostTensor(dtype, left), HostTensor(dtype, right))


@given(values=hnp.arrays(np.float64, (2, 6)))
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("dtype", ["torch.float64", "torch.complex128"])
def test_numbers_whose_squares_leave_float64(dtype, values):
    left, right = (values / 4).view(DTYPES[dtype])  # where a modulus leaves float64, its last bit decides

    assert_as_defined(HostTensor(dtype, left), HostTensor(dtype, right))


@pytest.mark.parametrize("scales", [(1e200, 1e-200), (1e-200, 1e-200), (1e300, 1e300), (1e-310, 1.0), (1.0, 1e307)])
def test_both_ends_of_float64(scales):
    left, right = (normal(3 * BLOCK, "torch.float64", seed).array * scale for seed, scale in enumerate(scales))
    left[5] = np.nan
    left[7] = right[7] = np.inf

    assert_as_defined(HostTensor.from_numpy(left), HostTensor.from_numpy(right))


def test_a_difference_beyond_float64_is_infinite():
    candidate, baseline = np.array([1.7e308, 1.0]), np.array([-1.7e308, 2.0])

    assert_as_defined(HostTensor.from_numpy(candidate), HostTensor.from_numpy(baseline))
    assert compare_pair(HostTensor.from_numpy(candidate), HostTensor.from_numpy(baseline)).mismatched == 0


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_tiny_difference_beside_huge_numbers(dtype):
    candidate, baseline = np.array([1e130, 2e-160], dtype), np.array([1e130, 1e-160], dtype)

    assert_as_defined(HostTensor.from_numpy(candidate), HostTensor.from_numpy(baseline))


@pytest.mark.parametrize("left", sorted(DTYPES))
@pytest.mark.parametrize("right", ["torch.float32", "torch.bfloat16", "torch.int64", "torch.complex64"])
@pytest.mark.parametrize("parts", [1, 3])
def test_two_dtypes(left, right, parts):
    numbers = 3 * BLOCK + 8  # thirds of it are odd
    shape = (numbers // 2,) if left == "torch.float4_e2m1fn_x2" else (numbers,)
    one, other = random_tensor(left, shape, 0), normal(numbers, right, seed=1)

    assert_as_defined(one, other, parts=parts)
    assert_as_defined(other, one, parts=parts)


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5, LARGE])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16", "torch.float16", "torch.float64"])
def test_sizes_around_blocks_and_parts(size, parts, dtype):
    baseline = normal(size, dtype)
    noise = 1 + 1e-3 * np.random.default_rng(1).normal(size=size)
    candidate = HostTensor(dtype, (baseline.array.astype(np.float64) * noise).astype(DTYPES[dtype]))

    assert_as_defined(candidate, baseline, parts=parts)


@pytest.mark.parametrize("dtype", ["torch.complex64", "torch.int8", "torch.int32", "torch.float8_e5m2"])
def test_large_tensors_of_other_dtypes(dtype):
    with np.errstate(invalid="ignore"):
        assert_as_defined(random_tensor(dtype, (LARGE,), 0), random_tensor(dtype, (LARGE,), 1))


def test_windows_smaller_than_the_tensor(monkeypatch):
    monkeypatch.setattr(pairs, "_WINDOW", 5_000)

    assert_as_defined(normal(LARGE), normal(LARGE, seed=1), parts=2)


@pytest.mark.parametrize("place", [0, BLOCK, LARGE - 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 0.0])
@pytest.mark.parametrize("both", [True, False], ids=["both-sides", "candidate-only"])
def test_one_strange_number_among_many(place, value, both):
    candidate, baseline = normal(LARGE), normal(LARGE, seed=1)
    candidate.array[place] = value
    if both:
        baseline.array[place] = value

    assert_as_defined(candidate, baseline)
    assert compare_pair(candidate, baseline).mismatched == (not both and not np.isfinite(value))


def test_a_difference_in_one_element_of_equal_tensors_is_found():
    baseline = normal(LARGE)
    for place in (0, 1, BLOCK - 1, BLOCK, LARGE // 2, LARGE - 1):
        candidate = HostTensor.from_numpy(baseline.array.copy())
        candidate.array[place] += 1

        assert compare_pair(candidate, baseline).max_abs == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(
    ("candidate", "baseline", "cosine", "mismatched"),
    [
        pytest.param([0.0, 0.0], [0.0, 0.0], 1.0, 0, id="two-zeros-agree"),
        pytest.param([1.0, 0.0], [0.0, 0.0], None, 0, id="one-zero-has-no-direction"),
        pytest.param([0.0, 0.0], [1.0, 0.0], None, 0, id="nor-has-the-other"),
        pytest.param([math.inf, 1.0], [math.inf, 1.0], 1.0, 0, id="equal-infinities"),
        pytest.param([math.inf, 1.0], [-math.inf, 1.0], 1.0, 1, id="opposite-infinities"),
        pytest.param([math.nan, 1.0], [math.inf, 1.0], 1.0, 1, id="nan-opposite-inf"),
        pytest.param([math.nan], [math.nan], 1.0, 0, id="nothing-but-nan"),
        pytest.param([], [], 1.0, 0, id="empty"),
        pytest.param([1.0, 0.0], [0.0, 1.0], 0.0, 0, id="right-angle"),
        pytest.param([1.0, 2.0], [-2.0, -4.0], -1.0, 0, id="opposite"),
    ],
)
def test_cosine_and_mismatches(candidate, baseline, cosine, mismatched):
    ours = compare_pair(*(HostTensor.from_numpy(np.array(side, np.float32)) for side in (candidate, baseline)))

    assert (ours.cosine, ours.mismatched) == (pytest.approx(cosine), mismatched)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_the_baseline_of_zero_is_the_epsilon_of_its_dtype(dtype):
    if dtype == "torch.float8_e8m0fnu":
        pytest.skip("has no zero")
    zero = HostTensor(dtype, np.zeros(1, np.uint8).repeat(DTYPES[dtype].itemsize).view(DTYPES[dtype]))
    count = zero.numbers().size
    epsilon = 2**-52 if zero.array.dtype.kind in "iub" else EPSILON.get(dtype, 2**-23)

    assert compare_pair(HostTensor.from_numpy(np.ones(count, np.float32)), zero).max_relative == 1 / epsilon


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("size", [3, LARGE])
def test_equal_tensors(dtype, size):
    tensor = random_tensor(dtype, (size,), 0)

    ours = compare_pair(tensor, HostTensor(dtype, tensor.array.copy()))

    assert ours == compare_pair(tensor, tensor)
    assert (ours.cosine, ours.euclidean, ours.max_abs, ours.max_relative) == (1, 0, 0, 0)
    assert (ours.within_1e3, ours.within_5e3, ours.mismatched, ours.count) == (1, 1, 0, size)
    assert ours.has_nonfinite == (not np.isfinite(tensor.numbers()).all())


def test_small_angles_keep_their_digits():
    baseline = np.ones(LARGE)
    candidate = baseline.copy()
    candidate[::2] += 1e-6

    ours = compare_pair(HostTensor.from_numpy(candidate), HostTensor.from_numpy(baseline))

    assert 1 - ours.cosine == pytest.approx(1.25e-13, rel=0.02)


def test_any_layout_is_read_in_the_order_of_its_indices():
    base, other = normal(4 * 6 * 8).array.reshape(4, 6, 8), normal(4 * 6 * 8, seed=1).array.reshape(4, 6, 8)
    for view in (lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1], lambda x: np.broadcast_to(x[0], (3, 6, 8))):
        assert_as_defined(HostTensor.from_numpy(view(base)), HostTensor.from_numpy(view(other).copy()))


def test_the_same_number_of_parts_gives_the_same_result():
    candidate, baseline = normal(LARGE), normal(LARGE, seed=1)

    assert len({str(compare_pair(candidate, baseline, parts=3)) for _ in range(5)}) == 1


def test_a_large_pair_has_one_result_however_many_cores_there_are(monkeypatch):
    candidate, baseline = normal(1 << 22), normal(1 << 22, seed=1)
    results = set()
    for cores in (1, 2, 7):
        with ThreadPoolExecutor(cores) as threads:
            monkeypatch.setattr(pairs, "_threads", lambda threads=threads: threads)
            results.add(str(compare_pair(candidate, baseline)))

    assert len(results) == 1
    assert results != {str(compare_pair(candidate, baseline, parts=1))}  # sums in another order have other last digits


def test_tensors_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="3 elements cannot be compared with 4"):
        compare_pair(normal(3), normal(4))


def test_mapped_pages_are_let_go_and_come_back(tmp_path):
    values = normal(1 << 20).array
    (tmp_path / "tensor").write_bytes(b"head" + values.tobytes())
    with (tmp_path / "tensor").open("rb") as file:
        mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    tensor = HostTensor.from_numpy(mapped[4:].view(np.float32))

    ours = compare_pair(tensor, normal(1 << 20, seed=1))

    assert resident_kib(mapped) == 0
    assert ours == compare_pair(HostTensor.from_numpy(values), normal(1 << 20, seed=1))


def test_memory_that_is_no_file_is_never_let_go(tmp_path):
    own = normal(1 << 20).array
    (tmp_path / "tensor").write_bytes(bytes(4096))
    with (tmp_path / "tensor").open("rb") as file:
        private = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
    private[0] = 7

    for array in (own, private, own[:0]):
        release_pages(array)

    assert (private[0], own.any()) == (7, True)


def resident_kib(mapped) -> int:
    """Return how much of a mapping is in this process's memory."""
    start = f"{mapped.ctypes.data:x}-"
    with open("/proc/self/smaps") as maps:
        lines = iter(maps)
        next(line for line in lines if line.startswith(start))
        return int(next(line for line in lines if line.startswith("Rss:")).split()[1])


def test_every_half_is_what_ml_dtypes_and_numpy_say():
    every = np.arange(1 << 16, dtype=np.uint16)
    for kind in (ml_dtypes.bfloat16, np.float16):
        tensor = HostTensor.from_numpy(every.view(kind))
        with np.errstate(invalid="ignore"):
            wide = HostTensor.from_numpy(every.view(kind).astype(np.float64))

        assert (compare_pair(tensor, wide).max_abs, compare_pair(wide, tensor).mismatched) == (0, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "complex64", "float16"])
@pytest.mark.parametrize("count", [0, 1, 2049, 100_000])
def test_checksums_come_with_the_metrics(dtype, count):
    rng = np.random.default_rng(count)
    left, right = (HostTensor.from_numpy(rng.integers(0, 100, count).astype(dtype)) for _ in range(2))

    metrics, checksums = compare_checked(left, right)

    assert metrics == compare_pair(left, right, parts=1)
    assert checksums == (zlib.crc32(left.raw()), zlib.crc32(right.raw()))


def test_checksums_are_those_of_more_than_one_window():
    left, right = normal(5 << 20, seed=0), normal(5 << 20, seed=1)

    _, checksums = compare_checked(left, right)

    assert checksums == (zlib.crc32(left.raw()), zlib.crc32(right.raw()))
