"""Everyone who measures a tensor gives the sketch that the format's page defines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.sketches import sums_by_definition, sums_of
from tests.support.statistics import random_tensor
from torchparity import HostTensor, from_torch
from torchparity.kernels import reference
from torchparity.kernels.arenas.host import HostArena
from torchparity.kernels.arenas.portable import PortableArena
from torchparity.kernels.cpu import CpuKernel, sketch_of_repeated
from torchparity.kernels.numba_loops import blocks
from torchparity.kernels.row import FIELDS, SKETCH
from torchparity.kernels.signs import is_wide, sketch_sums
from torchparity.tensors import DTYPES

FLOOR = 3e-7
POWERS = [2**power + offset for power in (8, 9, 11, 13, 16, 17) for offset in (-1, 0, 1)]


def real_numbers(tensor: HostTensor) -> np.ndarray:
    numbers = np.ascontiguousarray(tensor.numbers()).reshape(-1)
    return numbers.view(np.float64) if numbers.dtype.kind == "c" else numbers


def assert_sketch(sketch: bytes | None, values: np.ndarray, *, floor: float = FLOOR, sums=sums_by_definition) -> None:
    exact = np.where(np.isfinite(values.astype(np.float64)), values.astype(np.float64), 0)
    wanted = sums(exact)
    if len(sketch or b"") == 32:  # a sum beyond float32 saturates
        wanted = wanted.clip(-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))
    error = np.abs(sums_of(sketch) - wanted)
    assert np.sqrt((error**2).mean()) <= floor * np.linalg.norm(exact)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_has_the_sketch_of_its_numbers(dtype):
    tensor = random_tensor(dtype, (9, 31), seed=3)
    if dtype in ("torch.float64", "torch.complex128"):  # arbitrary bits of these are beyond what adding up keeps
        values = np.random.default_rng(3).normal(size=(9, 62 if "complex" in dtype else 31))
        tensor = HostTensor.from_numpy(values.view(DTYPES[dtype]))
    measured = [reference.statistics(tensor), CpuKernel().statistics(tensor), CpuKernel(exact=True).statistics(tensor)]

    wide = dtype.startswith(("torch.int", "torch.uint", "torch.bool")) or dtype.endswith(("float64", "complex128"))
    assert is_wide(dtype) is wide
    for statistics in measured:
        assert len(statistics.sketch or b"") == (64 if wide else 32)
        with np.errstate(over="ignore"):
            assert_sketch(statistics.sketch, real_numbers(tensor))


def test_one_element_and_none_have_no_sketch():
    for kernel in (reference.statistics, CpuKernel().statistics):
        assert kernel(HostTensor.from_numpy(np.float32(3).reshape(()))).sketch is None
        assert kernel(HostTensor.from_numpy(np.ones(1, np.int64))).sketch is None
        assert kernel(HostTensor.from_numpy(np.empty((0, 3), np.float32))).sketch is None


def readings(arena, tensors):
    for tensor in tensors:
        arena.add(tensor, tensor.data_ptr(), tensor.numel(), str(tensor.dtype), None)
    return [statistics for _, statistics, _ in arena.take().wait()]


def test_the_host_arena_at_every_size():
    tensors = [torch.randn(size, generator=torch.Generator().manual_seed(size)) + 1 for size in range(2, 301)]
    for exact in (True, False):
        for statistics, tensor in zip(readings(HostArena(exact=exact, checksums=False), tensors), tensors, strict=True):
            assert_sketch(statistics.sketch, tensor.numpy())


def test_the_host_arena_on_both_sides_of_its_blocks():
    tensors = [torch.randn(size, generator=torch.Generator().manual_seed(size)) for size in POWERS]
    for tensor in tensors:  # one flush each: the largest go to several cores
        (statistics,) = readings(HostArena(exact=False, checksums=True), [tensor])
        assert_sketch(statistics.sketch, tensor.numpy(), sums=lambda exact: sketch_sums(exact, 0))


@pytest.mark.parametrize("cores", [1, 2, 3, 7])
def test_parts_of_several_cores_make_the_sketch_of_the_whole(cores):
    values = np.random.default_rng(cores).normal(size=30_011).astype(np.float32)
    table = np.array([[values.ctypes.data, values.size]], np.int64)
    rows, checksums = np.zeros((1, cores, FIELDS)), np.zeros((1, cores), np.uint32)
    for core in range(cores):
        blocks.measure_part(table, False, 0, rows, checksums, core, cores)
    whole = rows[0, :, SKETCH:].sum(axis=0)

    assert_sketch(whole.tobytes(), values, sums=lambda exact: sketch_sums(exact, 0))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-30, 3e38])
def test_what_is_not_finite_counts_as_zero_and_the_rest_still_counts(value):
    for place in (0, 5, 127, 128, 2047, 2048, 4000, 4099):
        values = np.random.default_rng(place).normal(size=4100).astype(np.float32)
        values[place] = value
        tensor = torch.from_numpy(values)
        measured = [
            *readings(HostArena(exact=False, checksums=False), [tensor]),
            *readings(PortableArena(lambda: None), [tensor]),
            CpuKernel().statistics(from_torch(tensor)),
            reference.statistics(from_torch(tensor)),
        ]
        for statistics in measured:
            assert_sketch(statistics.sketch, values, sums=lambda exact: sketch_sums(exact, 0))


@pytest.mark.parametrize("has_float64", [True, False])
@pytest.mark.parametrize("dtype", sorted(PortableArena.dtypes))
def test_the_portable_arena_sketches_every_dtype_it_takes(dtype, has_float64, monkeypatch):
    if not has_float64 and dtype == "torch.float64":
        pytest.skip("such a device has none")
    monkeypatch.setattr("torchparity.kernels.arenas.portable._SLICE", 1024)
    monkeypatch.setattr("torchparity.kernels.arenas.device_signs._PIECE", 256)
    monkeypatch.setattr("torchparity.kernels.arenas.device_signs._MOST_KEPT", 10)
    kind = getattr(torch, dtype.removeprefix("torch."))
    tensors = [(torch.randn(size) * 50).to(kind) for size in (2, 100, 128, 1023, 1025, 3000)]

    arena = PortableArena(lambda: None, has_float64=has_float64)

    for statistics, tensor in zip(readings(arena, tensors), tensors, strict=True):
        assert len(statistics.sketch or b"") == (64 if is_wide(dtype) else 32)
        assert_sketch(statistics.sketch, from_torch(tensor).numbers())


def test_sums_beyond_the_range_saturate():
    large = HostTensor.from_numpy(np.full(4, 3e38, np.float32))
    larger = HostTensor.from_numpy(np.full(4, 1.7e308))

    for tensor in (large, larger):
        for statistics in (reference.statistics(tensor), CpuKernel().statistics(tensor)):
            sums = sums_of(statistics.sketch)
            wanted = sums_by_definition(np.ones(4))
            assert np.isfinite(sums).all()
            assert (np.sign(sums) == np.sign(wanted)).all()


@pytest.mark.parametrize("times", [2, 127, 128, 129, 5000])
def test_one_number_shown_many_times(times):
    assert_sketch(sketch_of_repeated(-2.5, times, "torch.float32"), np.full(times, -2.5))
    assert sketch_of_repeated(True, times, "torch.bool") == sums_by_definition(np.ones(times)).tobytes()


def test_a_number_shown_more_often_than_can_be_added_up_has_no_sketch():
    assert sketch_of_repeated(1.0, 1 << 40, "torch.float32") is None


@pytest.mark.gpu
def test_the_cuda_arena_sketches_as_the_host_does(cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    arena = CudaArena(cuda, checksums=False)
    tensors = []
    for dtype in sorted(arena.dtypes):
        for size in (2, 127, 128, 129, 1023, 1025, 65_535, 65_537, 200_001):
            values = torch.randn(size, generator=torch.Generator().manual_seed(size)) * 50
            if dtype == "torch.float32" and size > 128:
                values[[3, 70]] = torch.tensor([torch.nan, -torch.inf])
            tensors.append(values.to(getattr(torch, dtype.removeprefix("torch."))))

    on_device = [tensor.to(cuda) for tensor in tensors]
    for statistics, tensor in zip(readings(arena, on_device), tensors, strict=True):
        host = from_torch(tensor)
        assert len(statistics.sketch or b"") == (64 if is_wide(host.dtype) else 32)
        floor = 0.0 if is_wide(host.dtype) else FLOOR
        assert_sketch(statistics.sketch, host.numbers(), floor=floor, sums=lambda exact: sketch_sums(exact, 0))
