"""Measures each tensor once: statistics, checksum or a copy, by what the task keeps.

The same tensor at the same version is not looked at twice. A tensor is known by its
storage, offset, shape and stride. A weak reference pins the storage's identity, so memory
that was freed and used again is not mistaken for what was there before. No reference is
held to tensors themselves, not even a weak one: torch refuses to swap such tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from torchparity.capture._xor import xor_checksum
from torchparity.kernels.cpu import CpuKernel
from torchparity.records import Statistics, TensorLeaf
from torchparity.storage import SharedTensor
from torchparity.storage._torch import from_torch, memory
from torchparity.tensors import DTYPES, HostTensor

_LOW = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Kept:
    """What a task keeps of every tensor."""

    statistics: bool = True
    checksum: bool = False
    values: bool = False
    xor: bool = False  # another checksum, and no statistics
    by_shape: bool = False  # the format stores a tensor with its shape, so a reshaped view is another tensor


class Measurement:
    """What is known of one tensor at one version."""

    __slots__ = ("checksum", "statistics", "values")

    def __init__(self, statistics: Statistics | None, checksum: str | None, values: SharedTensor | None) -> None:
        self.statistics, self.checksum, self.values = statistics, checksum, values


class SeenTensor:
    """A tensor as a call saw it."""

    __slots__ = ("dtype", "layout", "measurement", "requires_grad", "shape")

    def __init__(self, tensor: torch.Tensor, measurement: Measurement | None) -> None:
        self.dtype, self.shape = _NAMES.get(tensor.dtype) or str(tensor.dtype), tuple(tensor.shape)
        self.requires_grad = tensor.requires_grad
        self.layout = None if measurement is not None else _form(tensor)
        self.measurement = measurement

    def leaf(self) -> TensorLeaf:
        known = self.measurement
        return TensorLeaf(
            dtype=self.dtype,
            shape=self.shape,
            statistics=known.statistics if known else None,
            checksum=known.checksum if known else None,
            requires_grad=self.requires_grad,
            layout=self.layout,
        )


def _form(tensor: torch.Tensor) -> str | None:
    if tensor.is_meta:
        return "meta"
    return None if tensor.layout is torch.strided else str(tensor.layout).removeprefix("torch.")


class Meter:
    """Looks at tensors for one recording; `forget` at the end of each step."""

    def __init__(self, kept: Kept, *, exact: bool) -> None:
        self._kept = kept
        self._kernel = CpuKernel(exact=exact)
        self._by_memory: dict[tuple[Any, ...], Measurement] = {}
        self._storages: dict[int, StorageWeakRef] = {}
        self._distrusted: set[int] = set()

    def see(self, tensor: torch.Tensor, *, keep: bool = True) -> SeenTensor:
        """Return what is known of a tensor, measuring it if need be; without `keep` it is not remembered."""
        tensor = getattr(tensor, "_local_tensor", tensor)  # a sharded tensor: what this rank has of it
        if not _is_measurable(tensor) or not _has_memory(tensor):
            return SeenTensor(tensor, None)
        version = None if tensor.is_inference() else tensor._version
        if version is None or not keep:
            return SeenTensor(tensor, self._measure(tensor))
        memory_of_it = tensor.untyped_storage()
        storage = memory_of_it._cdata
        # What NumPy or a file shares cannot be resized, and can change without a new version.
        if storage in self._distrusted or not memory_of_it.resizable():
            return SeenTensor(tensor, self._measure(tensor))
        form = (tensor.dtype, tensor.is_conj(), tensor.is_neg(), self._geometry(tensor))
        key = (storage, version, tensor.storage_offset(), form)
        measurement = self._by_memory.get(key)
        if measurement is None:
            measurement = self._by_memory[key] = self._measure(tensor)
            self._pin(tensor, storage)
        return SeenTensor(tensor, measurement)

    def distrust(self, *tensors: torch.Tensor) -> None:
        """Somebody got at the memory itself: it may change from now on without a new version."""
        for tensor in tensors:
            if _is_measurable(tensor) and _has_memory(tensor):
                storage = tensor.untyped_storage()._cdata
                self._pin(tensor, storage)
                self._distrusted.add(storage)

    def renew(self, tensor: torch.Tensor) -> None:
        """Forget what was known of a tensor's memory: it was written without a new version."""
        if _is_measurable(tensor) and _has_memory(tensor):
            storage = tensor.untyped_storage()._cdata
            self._by_memory = {key: known for key, known in self._by_memory.items() if key[0] != storage}

    def forget(self) -> None:
        self._by_memory.clear()
        self._distrusted.clear()
        self._storages.clear()

    def _geometry(self, tensor: torch.Tensor) -> Any:
        """Return what makes two views of one storage the same numbers: contiguous ones differ by count alone."""
        if tensor.is_contiguous() and not self._kept.by_shape:
            return tensor.numel()
        return tuple(tensor.shape), tensor.stride()

    def _pin(self, tensor: torch.Tensor, storage: int) -> None:
        if storage not in self._storages:
            self._storages[storage] = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]

    def _measure(self, tensor: torch.Tensor) -> Measurement:
        host: HostTensor | None = None
        if self._kept.values:
            host = from_torch(tensor.detach().clone(memory_format=torch.contiguous_format))
        elif self._kept.checksum:
            host = from_torch(tensor)
        if self._kept.xor and host is not None:
            return Measurement(None, xor_checksum(host), SharedTensor(host) if self._kept.values else None)
        statistics = self._kernel.statistics(host if host and host.dtype not in _NARROW else _widened(tensor))
        checksum = self._kernel.checksum(host) if self._kept.checksum and host is not None else None
        return Measurement(statistics, checksum, SharedTensor(host) if self._kept.values and host is not None else None)


_NARROW = frozenset({"torch.float16", "torch.bfloat16"})


def _widened(tensor: torch.Tensor) -> HostTensor:
    """Return the values for statistics: without a copy where they are on the host, halves widened by torch."""
    plain = tensor.detach()
    if plain.device.type != "cpu":
        plain = plain.cpu()
    if plain.dtype in _LOW:
        plain = plain.float()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return HostTensor(str(plain.dtype), memory(plain))


def _has_memory(tensor: torch.Tensor) -> bool:
    """Tell whether there are values to read: sharded training frees storages, wrappers have none."""
    try:
        needed = tensor.element_size() * (tensor.storage_offset() + 1) if tensor.numel() else 0
        return tensor.untyped_storage().nbytes() >= needed and (not needed or tensor.data_ptr() != 0)
    except (RuntimeError, NotImplementedError):
        return False


def _is_measurable(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.dtype not in _NAMES or tensor.is_meta:
        return False
    if type(tensor) in _PLAIN:
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return type(tensor).__name__ != "FakeTensor" and not tensor.is_quantized


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_NAMES = {
    kind: name for name in DTYPES if isinstance(kind := getattr(torch, name.removeprefix("torch."), None), torch.dtype)
}
