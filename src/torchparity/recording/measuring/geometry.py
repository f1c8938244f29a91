"""Facts about a tensor's memory and layout, without reading its values."""

from __future__ import annotations

from operator import mul
from typing import Any

import torch

from torchparity.calls import PLAIN
from torchparity.devices import device_for
from torchparity.tensors import DTYPES

is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # by a transform such as torch.func.grad
_NAMES = {
    kind: name for name in DTYPES if isinstance(kind := getattr(torch, name.removeprefix("torch."), None), torch.dtype)
}


def name_of(dtype: torch.dtype) -> str:
    """Return a dtype as torch prints it."""
    return _NAMES.get(dtype) or str(dtype)


def inner(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor that has the memory: this rank's part of a sharded tensor, the values of a nested one."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    if not local.is_nested:
        return local
    jagged: Any = local
    return jagged._values if local.layout is torch.jagged else local.detach().values()


def may_change_unseen(storage: torch.UntypedStorage) -> bool:
    """Tell whether others can write a storage: one that is shared with NumPy or a file is not resizable."""
    return not storage.resizable() and device_for(storage.device).shares_unresizable


def version_of(tensor: torch.Tensor) -> int:
    """Return the version of a tensor's content; -1 for an inference tensor, which counts none."""
    return -1 if tensor.is_inference() else tensor._version


def has_holes(nested: torch.Tensor) -> bool:
    """Tell whether a nested tensor's memory holds numbers between its own that are not part of it."""
    if nested.layout is torch.jagged:
        return nested._lengths is not None  # type: ignore[attr-defined]
    return not nested.is_contiguous()


def is_measurable(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is strided, of a dtype that can be recorded, and neither fake nor wrapped."""
    if tensor.is_nested:
        return False
    if tensor.layout is not torch.strided or tensor.dtype not in _NAMES or tensor.is_meta:
        return False
    if type(tensor) in PLAIN:
        return not is_wrapped(tensor)
    return type(tensor).__name__ != "FakeTensor" and not tensor.is_quantized


def has_memory(tensor: torch.Tensor) -> bool:
    """Tell whether there are values to read: sharded training frees storages, wrappers have none."""
    try:
        count = tensor.numel()
        reach = count if not count or tensor.is_contiguous() else reach_of(tensor.shape, tensor.stride())
        needed = tensor.element_size() * (tensor.storage_offset() + reach) if count else 0
        return tensor.untyped_storage().nbytes() >= needed and (not needed or tensor.data_ptr() != 0)
    except (RuntimeError, NotImplementedError):
        return False


def reach_of(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return how many elements lie from the first to the last in memory; there is at least one."""
    return int(1 + sum(map(mul, shape, stride)) - sum(stride))


def unrepeated(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return each element of an expanded tensor once, and how often it is shown: in full it may not fit in memory."""
    times = 1
    if tensor.numel():
        for dimension, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            if step == 0 and size > 1:
                tensor, times = tensor.detach().narrow(dimension, 0, 1), times * size
    return tensor, times
