"""What can be said of a tensor's memory without reading it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec
import torch

from torchparity.kernels.arenas.cuda_waiting import wait_for
from torchparity.recording.measuring.buffer_pool import BufferPool
from torchparity.records import Statistics
from torchparity.storage import SharedTensor
from torchparity.tensors import DTYPES, HostTensor
from torchparity.tensors.torch_tensors import from_torch, memory

_LOW = (torch.float16, torch.bfloat16)
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
POINT_TO_POINT: tuple[Any, ...] = (torch.distributed.P2POp,) if torch.distributed.is_available() else ()
_NAMES = {
    kind: name for name in DTYPES if isinstance(kind := getattr(torch, name.removeprefix("torch."), None), torch.dtype)
}


def name_of(dtype: torch.dtype) -> str:
    """Return a dtype as torch prints it."""
    return _NAMES.get(dtype) or str(dtype)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments, in lists and mappings too, each of which is looked into once."""
    waiting, known = [value], set[int]()
    while waiting:
        found = waiting.pop()
        if isinstance(found, torch.Tensor):
            yield found
        elif isinstance(found, (list, tuple, Mapping)) and id(found) not in known:
            known.add(id(found))
            waiting += [*(found.values() if isinstance(found, Mapping) else found)][::-1]
        elif isinstance(found, POINT_TO_POINT):
            yield found.tensor


def inner(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor that has the memory: of a sharded one what this rank has, of a nested one all its numbers."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    if not local.is_nested:
        return local
    jagged: Any = local
    return jagged._values if local.layout is torch.jagged else local.detach().values()


def has_holes(nested: torch.Tensor) -> bool:
    """Tell whether there are numbers between those of a nested tensor that are not its own."""
    if nested.layout is torch.jagged:
        return nested._lengths is not None  # type: ignore[attr-defined]
    return not nested.is_contiguous()


def is_measurable(tensor: torch.Tensor) -> bool:
    if tensor.is_nested:
        return False
    if tensor.layout is not torch.strided or tensor.dtype not in _NAMES or tensor.is_meta:
        return False
    if type(tensor) in PLAIN:
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return type(tensor).__name__ != "FakeTensor" and not tensor.is_quantized


def has_memory(tensor: torch.Tensor) -> bool:
    """Tell whether there are values to read: sharded training frees storages, wrappers have none."""
    try:
        needed = tensor.element_size() * (tensor.storage_offset() + _reach(tensor)) if tensor.numel() else 0
        return tensor.untyped_storage().nbytes() >= needed and (not needed or tensor.data_ptr() != 0)
    except (RuntimeError, NotImplementedError):
        return False


def _reach(tensor: torch.Tensor) -> int:
    """Return how many elements lie from the first to the last in memory."""
    if tensor.is_contiguous():
        return tensor.numel()
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def is_dense(tensor: torch.Tensor) -> bool:
    """Tell whether the elements fill their stretch of memory, in any order."""
    return tensor.is_contiguous() or _fills(tensor.shape, tensor.stride())


@lru_cache(maxsize=4096)
def _fills(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    expected = 1
    for step, size in sorted((step, size) for step, size in zip(stride, shape, strict=True) if size != 1):
        if step != expected:
            return False
        expected *= size
    return True


def unrepeated(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return each element of an expanded tensor once, and how often it is shown: in full it may not fit in memory."""
    times = 1
    if tensor.numel():
        for dimension, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            if step == 0 and size > 1:
                tensor, times = tensor.detach().narrow(dimension, 0, 1), times * size
    return tensor, times


def repeated(statistics: Statistics, times: int) -> Statistics:
    """Return the statistics of a tensor that shows each element several times."""
    norms = {name: getattr(statistics, name) for name in ("norm", "finite_norm")}
    counts = {name: getattr(statistics, f"{name}_count") for name in ("nan", "inf", "negative_inf", "zero")}
    return msgspec.structs.replace(
        statistics,
        **{name: None if norm is None else norm * times**0.5 for name, norm in norms.items()},
        **{f"{name}_count": None if count is None else count * times for name, count in counts.items()},
    )


def widened(tensor: torch.Tensor) -> HostTensor:
    """Return the values for statistics: without a copy where they are on the host, halves widened by torch."""
    plain = tensor.detach()
    if plain.device.type != "cpu":
        plain = plain.cpu()
    if plain.dtype in _LOW:
        plain = plain.float()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return HostTensor(name_of(plain.dtype), memory(plain))


def copied(tensor: torch.Tensor, buffers: BufferPool) -> SharedTensor:
    """Return a copy of the values that nobody changes; on CUDA it arrives by itself while the training goes on."""
    if tensor.device.type == "cpu":
        return SharedTensor(HostTensor(name_of(tensor.dtype), memory(buffers.copy(tensor.detach()))))
    if tensor.device.type != "cuda":
        return SharedTensor(from_torch(tensor))  # a copy in any case
    shown = tensor.detach().resolve_conj().resolve_neg().contiguous()
    pinned = torch.empty(shown.shape, dtype=shown.dtype, pin_memory=True)
    pinned.copy_(shown, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record(torch.cuda.current_stream(tensor.device))
    return SharedTensor(HostTensor(name_of(pinned.dtype), memory(pinned)), partial(wait_for, arrived))
