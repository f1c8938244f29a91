"""Every arena gives what the definition gives, whatever is added before and after it."""

from __future__ import annotations

import zlib

import pytest
import torch

from tests.support.interrupts import interrupts, ring
from tests.support.statistics import assert_same
from torchparity import from_torch
from torchparity.kernels import reference
from torchparity.kernels.arenas import host as host_arena
from torchparity.kernels.arenas.host import HostArena
from torchparity.kernels.arenas.portable import PortableArena

SIZES = [1, 3, 2047, 2048, 2049, 32_767, 32_768, 32_769, 65_536, 70_001, 300_000]

FLOATS = ["float32", "float16", "bfloat16"]

INTEGERS = ["int64", "int32", "int16", "int8", "uint8", "bool"]


def numbers(dtype: str, size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(size)
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        values = torch.randn(size, generator=generator)
        values[:: max(1, size // 5)] = 0
        return values.to(kind)
    return torch.randint(0, 2, (size,), generator=generator).to(kind) * (1 if kind == torch.bool else 7)


def strange(dtype: str) -> list[torch.Tensor]:
    """Tensors with what is not finite, alone and among many numbers; and masks, whose sums overflow."""
    kind = getattr(torch, dtype)
    mask = numbers(dtype, 70_001)
    mask[::3] = torch.finfo(kind).min
    among = numbers(dtype, 70_001)
    among[3], among[40_000], among[70_000] = torch.nan, torch.inf, -torch.inf
    alone = [torch.tensor(values, dtype=kind) for values in ([torch.nan], [torch.inf], [-torch.inf, torch.inf])]
    return [among, *alone, mask, mask[:12].clone()]


def cases(dtypes: list[str]) -> list[torch.Tensor]:
    tensors = [numbers(dtype, size) for dtype in dtypes for size in SIZES]
    tensors += [tensor for dtype in dtypes if dtype in FLOATS for tensor in strange(dtype)]
    if "int64" in dtypes:
        tensors.append(torch.tensor([2**62 + 1, -(2**62) - 1, 5]))  # more digits than a float64 has
    return tensors


def readings_of(arena, tensors, *, together):
    for start in range(0, len(tensors), together):
        for tensor in tensors[start : start + together]:
            arena.add(tensor, tensor.data_ptr(), tensor.numel(), str(tensor.dtype), None)
        arena.flush()
    return [(statistics, checksum) for _, statistics, checksum in arena.take().wait()]


@pytest.mark.parametrize("together", [1, 5, 1000])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_host_arena_measures_as_the_definition(together, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(host_arena, "compiled_crc", lambda: 0)
    tensors = cases(["float32"])
    arena = HostArena(exact=False, checksums=True)

    readings = readings_of(arena, tensors, together=together)

    assert len(readings) == len(tensors)
    for (statistics, checksum), tensor in zip(readings, tensors, strict=True):
        host = from_torch(tensor)
        assert_same(statistics, reference.statistics(host), 1e-6)
        assert checksum == f"{zlib.crc32(host.raw()):08x}"
    assert arena.take().wait() == []


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("value", [9.0, -9.0, 0.0, 1e-30, 1e30, torch.nan, torch.inf, -torch.inf])
def test_a_number_counts_wherever_it_lies(value, exact):
    tensors = [numbers("float32", 150)[1:].clone() for _ in range(149)]
    tensors += [numbers("float32", size + 1)[1:] for size in range(2, 150)]  # not where a vector would like to begin
    for place, tensor in enumerate(tensors[:149]):
        tensor[place] = value

    readings = readings_of(HostArena(exact=exact, checksums=False), tensors, together=1)

    for (statistics, _), tensor in zip(readings, tensors, strict=True):
        assert_same(statistics, reference.statistics(from_torch(tensor)), 1e-6)


def readings_of_lists(arena, lists):
    for tensors in lists:
        addresses, counts = [tensor.data_ptr() for tensor in tensors], [tensor.numel() for tensor in tensors]
        arena.add_all(tensors, addresses, counts, str(tensors[0].dtype), list(map(id, tensors)))
    return arena.take().wait()


def assert_lists_are_measured(arena, lists):
    readings = readings_of_lists(arena, lists)
    every = [tensor for tensors in lists for tensor in tensors]
    assert [owner for owner, _, _ in readings] == list(map(id, every))
    for (_, statistics, checksum), tensor in zip(readings, every, strict=True):
        host = from_torch(tensor)
        assert_same(statistics, reference.statistics(host), 1e-6)
        assert checksum == f"{zlib.crc32(host.raw()):08x}"


def test_the_host_arena_takes_whole_lists():
    without_single = [tensor for tensor in cases(["float32"]) if tensor.numel() > 1]

    assert_lists_are_measured(HostArena(exact=False, checksums=True), [cases(["float32"]), without_single])


@pytest.mark.gpu
def test_the_cuda_arena_takes_whole_lists(cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    lists = [[tensor.to(cuda) for tensor in cases([dtype])] for dtype in (*FLOATS, *INTEGERS)]
    many = list(torch.arange(9000.0, device=cuda).view(4500, 2))  # more than one launch takes

    assert_lists_are_measured(CudaArena(cuda, checksums=True), [*lists, many, many[:4000], many[:200]])


def test_the_portable_arena_measures_as_the_definition(monkeypatch):
    monkeypatch.setattr("torchparity.kernels.arenas.portable._SLICE", 1024)
    synchronised = []
    tensors = cases([*FLOATS, *INTEGERS])
    arena = PortableArena(lambda: synchronised.append(True))

    readings = readings_of(arena, tensors, together=1)

    for (statistics, checksum), tensor in zip(readings, tensors, strict=True):
        assert str(tensor.dtype) in arena.dtypes
        assert_same(statistics, reference.statistics(from_torch(tensor)), 1e-12)
        assert checksum is None
    assert synchronised == [True]


@pytest.mark.gpu
@pytest.mark.parametrize("together", [1, 5, 1000])
def test_the_cuda_arena_measures_as_the_definition(together, cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    arena = CudaArena(cuda, checksums=True)
    kinds = [*FLOATS, *INTEGERS]
    tensors = [tensor.to(cuda) for tensor in cases(kinds)]
    whole = torch.arange(40_001, device=cuda, dtype=torch.bfloat16)
    tensors += [whole[1:], whole[2:40_000], torch.arange(99, dtype=torch.uint8, device=cuda)[3:]]  # odd addresses
    tensors += [numbers(kind, 2_200_003).to(cuda) for kind in ("float32", "bfloat16", "int64")]  # chunks of two blocks
    if "torch.float8_e4m3fn" in arena.dtypes:
        tensors += [torch.randn(70_001, device=cuda).to(kind) for kind in (torch.float8_e4m3fn, torch.float8_e5m2)]

    for _ in range(2):  # a second step begins anew
        readings = readings_of(arena, tensors, together=together)
        assert len(readings) == len(tensors)
        for (statistics, checksum), tensor in zip(readings, tensors, strict=True):
            host = from_torch(tensor)
            assert_same(statistics, reference.statistics(host), on_cuda(tensor))
            assert checksum == f"{zlib.crc32(host.raw()):08x}", (tensor.dtype, tensor.shape)


def on_cuda(tensor: torch.Tensor) -> float:
    """Return how far statistics may be off: eight squares of 16 bits are added up in float32, a rounding for each."""
    return 4 * 2.0**-25 if tensor.dtype in (torch.float16, torch.bfloat16) else 1e-12


@pytest.mark.gpu
@pytest.mark.parametrize("first", [0, 1], ids=["aligned", "not aligned"])
@pytest.mark.parametrize("scale", [1e-33, 1e-30, 1e-24, 1e-17, 1e-9, 1.0, 1e9, 1e18, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_cuda_arena_measures_numbers_of_any_size(dtype, scale, first, cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    values = (numbers("float32", 3 * 8192 + 78).double() * scale).to(getattr(torch, dtype))
    tensors = [part.to(cuda)[first:] for part in (values, values[: 8192 + first], values[: 2048 + first])]

    readings = readings_of(CudaArena(cuda, checksums=False), tensors, together=1)

    for (statistics, _), tensor in zip(readings, tensors, strict=True):
        assert_same(statistics, reference.statistics(from_torch(tensor)), on_cuda(tensor))
        assert statistics.zero_count == int((tensor == 0).sum())


def strided(dtype: str, cuda: torch.device) -> list[torch.Tensor]:
    """Views that a layout describes: of attention, of parts, of blocks that are whole, not finite or much too small."""
    kind = getattr(torch, dtype)
    qkv = numbers(dtype, 2 * 96 * 3 * 5 * 80).to(cuda).view(2, 96, 3, 5, 80)
    strange = qkv.clone()
    strange[1, 7, 2, 3, 5], strange[0, 95, 1, 0, 79], strange[1, 0, 0, 4, 0] = torch.nan, torch.inf, -torch.inf
    large = numbers(dtype, 4 * 1024 * 3 * 8 * 128).to(cuda).view(4, 1024, 3, 8, 128)
    mask = numbers(dtype, 96 * 256).to(cuda).view(96, 256)
    mask[::2] = torch.finfo(kind).min
    attended = [part for each in (qkv, strange, large) for part in each.permute(2, 0, 3, 1, 4).unbind(0)]
    return [*attended, mask[:, :128], mask[::2, 8:], large[:, ::3, 1, 2:, 16:64], large[3, :, 0], qkv[:, :, :, :, 8:16]]


@pytest.mark.gpu
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_cuda_arena_measures_strided_tensors_in_place(dtype, exact, cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    tensors, arena = strided(dtype, cuda), CudaArena(cuda, exact=exact, checksums=False)
    for tensor in tensors:
        address = tensor.data_ptr()
        layout = arena.layout_of(str(tensor.dtype), tuple(tensor.shape), tensor.stride(), address)
        assert layout is not None, tensor.stride()
        arena.add(tensor, address, tensor.numel(), str(tensor.dtype), None, layout)

    for (_, statistics, _), tensor in zip(arena.take().wait(), tensors, strict=True):
        assert_same(statistics, reference.statistics(from_torch(tensor)), 1e-12 if exact else on_cuda(tensor))


@pytest.mark.gpu
def test_a_strided_tensor_that_no_layout_leads_to_is_left_to_copying(cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    whole = torch.ones(64, 66, dtype=torch.bfloat16, device=cuda)
    odd = torch.ones(64 * 64 + 1, dtype=torch.bfloat16, device=cuda)[1:].view(64, 64)[:, :56]

    def layout(tensor, *, checksums=False):
        arena = CudaArena(cuda, checksums=checksums)
        return arena.layout_of(str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.data_ptr())

    assert layout(whole[:, :56]) is layout(odd) is None
    assert layout(torch.ones(64, 64, dtype=torch.int32, device=cuda)[:, :56]) is None
    assert layout(torch.ones(64, 64, device=cuda)[:, :56], checksums=True) is None


@pytest.mark.gpu
def test_an_exact_cuda_arena_sums_halves_in_float64(cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    tensors = [tensor.to(cuda) for tensor in cases(["float16", "bfloat16"])]

    readings = readings_of(CudaArena(cuda, exact=True, checksums=False), tensors, together=5)

    for (statistics, _), tensor in zip(readings, tensors, strict=True):
        assert_same(statistics, reference.statistics(from_torch(tensor)), 1e-12)


@pytest.mark.gpu
def test_a_zero_counts_wherever_it_lies_on_the_device(cuda):
    from torchparity.kernels.arenas.cuda import CudaArena

    places = [0, 1, 7, 8, 127, 128, 1023, 1024, 4095, 5000, 8190, 8191]
    tensors = [numbers("bfloat16", 8192).abs().add(1).to(cuda) for _ in places]
    for place, tensor in zip(places, tensors, strict=True):
        tensor[place] = 0

    readings = readings_of(CudaArena(cuda, checksums=False), tensors, together=3)

    assert [(statistics.zero_count, statistics.min) for statistics, _ in readings] == [(1, 0)] * len(places)


def test_the_portable_arena_does_without_float64():
    tensors = cases(["float32"])

    readings = readings_of(PortableArena(lambda: None, has_float64=False), tensors, together=5)

    for (statistics, _), tensor in zip(readings, tensors, strict=True):
        assert_same(statistics, reference.statistics(from_torch(tensor)), 1e-4)


def test_the_portable_arena_takes_whole_lists():
    lists = [cases(["float32"]), cases(["int64"])]

    readings = readings_of_lists(PortableArena(lambda: None), lists)

    every = [tensor for tensors in lists for tensor in tensors]
    assert [owner for owner, _, _ in readings] == list(map(id, every))
    for (_, statistics, _), tensor in zip(readings, every, strict=True):
        assert_same(statistics, reference.statistics(from_torch(tensor)), 1e-12)


def test_readings_that_were_taken_do_not_change_with_what_is_added_later():
    arena = HostArena(exact=False, checksums=False)
    first, second = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert len(arena.take()) == 0
    arena.add(first, first.data_ptr(), 2, "torch.float32", "first")
    pending = arena.take()
    arena.add(second, second.data_ptr(), 2, "torch.float32", "second")
    arena.flush()

    assert len(pending) == 1
    assert [(owner, statistics.max) for owner, statistics, _ in pending.wait()] == [("first", 2)]
    assert [(owner, statistics.max) for owner, statistics, _ in arena.take().wait()] == [("second", 4)]


def add(arena, tensor):
    arena.add(tensor, tensor.data_ptr(), tensor.numel(), "torch.float32", tensor)


def assert_all_are_measured(readings, wanted):
    """Each of some tensors must be among the readings, and whatever is among them measured as it is."""
    for owner, statistics, _ in readings:
        assert_same(statistics, reference.statistics(from_torch(owner)), 1e-6)
    assert {id(tensor) for tensor in wanted} <= {id(owner) for owner, _, _ in readings}


@pytest.mark.parametrize("size", [1, 5])
def test_an_alarm_in_the_middle_leaves_the_host_arena_whole(size):
    before, during, after = (numbers("float32", size) + place for place in range(3))
    steps = 0
    for run_interrupted in interrupts(host_arena.__file__, ring):
        arena = HostArena(exact=False, checksums=False)
        add(arena, before)
        arena.flush()
        run_interrupted(lambda: (add(arena, during), arena.flush()))  # noqa: B023
        add(arena, after)
        arena.flush()

        assert_all_are_measured(arena.take().wait(), [before, after])
        steps += 1

    assert steps > 10


@pytest.mark.parametrize("size", [1, 5])
def test_a_signal_whose_handler_measures_disturbs_nothing_in_the_host_arena(size):
    during, of_handler = numbers("float32", size), numbers("float32", size) + 1
    steps = 0
    arena = HostArena(exact=False, checksums=False)
    for run_interrupted in interrupts(host_arena.__file__, lambda: (add(arena, of_handler), arena.flush())):
        run_interrupted(lambda: (add(arena, during), arena.flush()))

        readings = arena.take().wait()
        assert_all_are_measured(readings, [during])
        assert len(readings) <= 2
        steps += 1

    assert steps > 10
