"""Tensors of the simulated device: their storage says `npu:0`, its bytes are those of a storage on the host.

Each device storage holds its host storage as an attribute. torch keeps the Python object of a storage for as long as
the storage lives, so the bytes live exactly as long as somebody can reach them.
"""

from __future__ import annotations

from typing import Any

import torch

from torchparity.errors import SimulationError

CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_HOST = "_simulated_host_storage"
_set_storage = torch.ops.aten.set_.source_Storage_storage_offset
_empty = torch.ops.aten.empty.memory_format


def is_simulated(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is on the simulated device."""
    return tensor.device.type == "npu"


def host_storage(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return the host storage that holds the bytes of a device storage."""
    host: torch.UntypedStorage | None = getattr(storage, _HOST, None)
    if host is not None:
        return host
    if not storage.nbytes():
        return _new_host_storage(0)
    if not storage.data_ptr():
        raise SimulationError("memory that torch allocated without the simulated NPU cannot be its; use torch.empty.")
    # torch shows our bytes in a storage of its own where it reads or writes a pickle; it keeps the bytes meanwhile.
    return _storage_at(storage.data_ptr(), "cpu", storage.nbytes())


def host_alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor over the memory of a device tensor: a write to either is seen by both."""
    alias: torch.Tensor = _empty.redispatch(CPU_KEYS, [0], dtype=tensor.dtype)
    _place(alias, host_storage(tensor.untyped_storage()), tensor)
    return alias


def device_storage(host: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return a new storage of the device over the bytes of a host storage."""
    storage = _storage_at(host.data_ptr(), "npu:0", host.nbytes())
    setattr(storage, _HOST, host)
    return storage


def device_tensor(host: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a device tensor that shows in `storage` what `host` shows in the host storage."""
    tensor: torch.Tensor = torch._C._acc.create_empty_tensor((0,), host.dtype)
    _place(tensor, storage, host)
    return tensor


def show(tensor: torch.Tensor, storage: torch.UntypedStorage, like: torch.Tensor) -> None:
    """Let an existing device tensor show the part of `storage` that `like` shows of its own."""
    _set_storage.redispatch(CPU_KEYS, tensor, storage, like.storage_offset(), like.shape, like.stride())


def _place(tensor: torch.Tensor, storage: torch.UntypedStorage, like: torch.Tensor) -> None:
    show(tensor, storage, like)
    if like.is_conj():
        torch._C._set_conj(tensor, True)
    if like.is_neg():
        torch._C._set_neg(tensor, True)


def _storage_at(address: int, device: str, size: int) -> torch.UntypedStorage:
    """Return a storage that shows memory and does not own it."""
    make: Any = torch._C._construct_storage_from_data_pointer
    storage: torch.UntypedStorage = make(address, torch.device(device), size)
    return storage


def _new_host_storage(size: int) -> torch.UntypedStorage:
    empty: torch.Tensor = _empty.redispatch(CPU_KEYS, [size], dtype=torch.uint8)
    return empty.untyped_storage()


class StorageMaker:
    """`torch.UntypedStorage(size, device="npu")`, for which torch has no allocator and ends the process."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, kind: type[torch.UntypedStorage], *given: Any, **options: Any) -> torch.UntypedStorage:
        device = options.get("device")
        if device is None or torch.device(device).type != "npu":
            storage: torch.UntypedStorage = self._make(kind, *given, **options)
            return storage
        return device_storage(_new_host_storage(given[0] if given else 0))
