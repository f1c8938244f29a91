"""A call on device tensors as the same call on the host, and the results back."""

from __future__ import annotations

from typing import Any

import torch

from torchparity.errors import SimulationError
from torchparity.simulation.memory import device_storage, device_tensor, host_alias, host_storage, is_simulated, show

_HOST_DEVICE = torch.device("cpu")


class Translation:
    """The device tensors of one call and the host tensors that stand for them."""

    def __init__(self) -> None:
        self._aliases: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # (device, host) by id of the device tensor
        self._originals: dict[int, torch.Tensor] = {}  # by id of the host tensor
        self._storages: dict[int, torch.UntypedStorage] = {}  # of the device, by address of the host storage
        self.foreign: list[torch.Tensor] = []  # tensors of the call that are on no simulated device

    def to_host(self, value: Any) -> Any:
        """Return an argument with every device tensor, storage and device replaced by the host's."""
        if isinstance(value, torch.Tensor):
            return self._tensor_to_host(value)
        if isinstance(value, (list, tuple)):
            return [self.to_host(each) for each in value]
        if isinstance(value, torch.device):
            return _host_device(value)
        if isinstance(value, torch.UntypedStorage) and value.device.type == "npu":
            host = host_storage(value)
            self._storages[host._cdata] = value
            return host
        return value

    def to_device(self, value: Any) -> Any:
        """Return a result with every host tensor on the device: an argument as itself, a view as a view."""
        if isinstance(value, torch.Tensor):
            return self._tensor_to_device(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.to_device(each) for each in value)
        return value

    def follow_writes(self) -> None:
        """Let device tensors whose stand-ins were resized, or set to another storage, show the same."""
        for tensor, host in self._aliases.values():
            storage = host.untyped_storage()
            if (
                tensor.data_ptr() != host.data_ptr()
                or tensor.shape != host.shape
                or tensor.stride() != host.stride()
                or tensor.untyped_storage().nbytes() < storage.nbytes()
            ):
                show(tensor, self._storage_for(storage), host)

    def _tensor_to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        if not is_simulated(tensor):
            self.foreign.append(tensor)
            self._originals[id(tensor)] = tensor
            return tensor
        known = self._aliases.get(id(tensor))
        if known is not None:
            return known[1]
        host = host_alias(tensor)
        self._aliases[id(tensor)] = tensor, host
        self._originals[id(host)] = tensor
        self._storages.setdefault(host.untyped_storage()._cdata, tensor.untyped_storage())
        return host

    def _tensor_to_device(self, host: torch.Tensor) -> torch.Tensor:
        original = self._originals.get(id(host))
        if original is not None:
            return original
        if host.layout is not torch.strided or host.is_quantized:
            kind = "quantized" if host.is_quantized else str(host.layout).removeprefix("torch.")
            raise SimulationError(f"the simulated NPU has no {kind} tensors; keep them on the CPU.")
        return device_tensor(host, self._storage_for(host.untyped_storage()))

    def _storage_for(self, host: torch.UntypedStorage) -> torch.UntypedStorage:
        known = self._storages.get(host._cdata)
        if known is None or known.data_ptr() != host.data_ptr() or known.nbytes() < host.nbytes():
            known = self._storages[host._cdata] = device_storage(host)
        return known


def _host_device(device: torch.device) -> torch.device:
    if device.type != "npu":
        return device
    if device.index not in (None, 0):
        raise SimulationError(f"there is no {device}; the simulated NPU is npu:0 alone.")
    return _HOST_DEVICE
