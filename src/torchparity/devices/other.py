"""Every device without a file of its own (mps, xpu, a PrivateUse1 backend), through `torch.<type>` where it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torchparity import plugins
from torchparity.devices import HostBuffers, Setting, Wait
from torchparity.kernels.arenas import Arena, portable_arena
from torchparity.tensors import HostTensor
from torchparity.tensors.torch_tensors import from_torch

_WITHOUT_FLOAT64 = ("mps",)
_TYPES_WITH_A_FILE = frozenset(plugins.names("devices"))


class OtherDevice:
    """See the contract in `devices/__init__.py`."""

    is_host = False
    shares_unresizable = True

    def fast_arena(self, device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
        return None

    def portable_arena(self, device: torch.device) -> Arena | None:
        return portable_arena(partial(self.synchronize, device), has_float64=device.type not in _WITHOUT_FLOAT64)

    def copy_to_host(self, tensor: torch.Tensor, buffers: HostBuffers) -> tuple[HostTensor, Wait | None]:
        return from_torch(tensor), None

    def wait(self, device: torch.device) -> None:
        current_stream = getattr(_backend(device.type), "current_stream", None)
        if current_stream is None:  # mps has none
            self.synchronize(device)
        else:
            current_stream(device).synchronize()

    def synchronize(self, device: torch.device) -> None:
        backend = _backend(device.type)
        if device.type == "mps":
            backend.synchronize()  # takes no device
        elif hasattr(backend, "synchronize"):  # meta tensors have no backend
            backend.synchronize(device)

    def generators(self) -> list[torch.Generator]:
        backends = [_backend(name) for name in ("xpu", _private_use()) if name not in _TYPES_WITH_A_FILE]
        in_use = [backend for backend in backends if hasattr(backend, "default_generators")]
        return [one for backend in in_use if backend.is_initialized() for one in backend.default_generators]

    def is_capturing_graph(self) -> bool:
        return False

    def clear_overflow(self, device: torch.device) -> None:
        """Do nothing: no such flag is known."""

    def has_overflowed(self, device: torch.device) -> bool | None:
        return None

    def float32_product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
        return None

    def make_reproducible(self, *, deterministic: bool) -> None:
        """Do nothing: no such settings are known."""

    def settings(self) -> dict[str, Setting]:
        backends = {name: _backend(name) for name in ("xpu", _private_use()) if name not in _TYPES_WITH_A_FILE}
        in_use = {name: one for name, one in backends.items() if getattr(one, "is_initialized", bool)()}
        return {name: one.get_device_name for name, one in in_use.items() if hasattr(one, "get_device_name")}


def _backend(kind: str) -> Any:
    """Return `torch.<type>`, None where there is none."""
    return vars(torch).get(kind)  # `getattr` would search for a module to import


def _private_use() -> str:
    return str(torch._C._get_privateuse1_backend_name())


PLUGIN = OtherDevice()
