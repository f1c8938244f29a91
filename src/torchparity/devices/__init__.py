"""Devices: everything that depends on the kind of device a tensor is on.

Plugin folder: each `x.py` serves the tensors with `tensor.device.type == "x"` and holds a `PLUGIN`
that keeps the contract `Device`; `other` serves every type without a file of its own (mps, xpu,
a PrivateUse1 backend). To add a device, add a file; a kernel of its own is an arena in `kernels/arenas/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Protocol

import torch

from torchparity import plugins
from torchparity.kernels.arenas import Arena
from torchparity.tensors import HostTensor

Wait = Callable[[], None]
Setting = Callable[[], object]  # reads a text, a number, on or off; None where it has no meaning here
_OTHER = "other"


class HostBuffers(Protocol):
    """Memory for copies of host tensors."""

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a contiguous copy of a CPU tensor."""


class Device(Protocol):
    """One kind of device. Nothing here initialises a device that the training does not use."""

    is_host: bool  # whether tensors are in host memory
    shares_unresizable: bool  # whether others than torch may write a storage that cannot be resized

    def fast_arena(self, device: torch.device, *, exact: bool, checksums: bool) -> Arena | None:
        """Return the arena that reads tensors by their address; None without one; raise where it cannot run here."""

    def portable_arena(self, device: torch.device) -> Arena | None:
        """Return the arena for dtypes that `fast_arena` does not take, without checksums; None where there is none."""

    def copy_to_host(self, tensor: torch.Tensor, buffers: HostBuffers) -> tuple[HostTensor, Wait | None]:
        """Return a copy that nobody changes; its values are there when `Wait`, if given, has returned."""

    def wait(self, device: torch.device) -> None:
        """Block until the current stream has finished its work."""

    def synchronize(self, device: torch.device) -> None:
        """Block until every stream has finished its work."""

    def generators(self) -> list[torch.Generator]:
        """Return the default random generators in use; none where the device is not initialised."""

    def is_capturing_graph(self) -> bool:
        """Tell whether the current stream records a graph instead of working."""

    def clear_overflow(self, device: torch.device) -> None:
        """Reset the hardware's overflow flag, where the device has one."""

    def has_overflowed(self, device: torch.device) -> bool | None:
        """Return the hardware's overflow flag; None where the device has none."""

    def float32_product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
        """Return the product of two matrices of float16 or bfloat16, or of two stacks of such, summed in float32.

        The result is in float32 too, and has no gradient. None where the device has no kernel for that.
        """

    def make_reproducible(self, *, deterministic: bool) -> None:
        """Switch off what makes two equal runs differ; `deterministic` also asks for deterministic algorithms."""

    def settings(self) -> dict[str, Setting]:
        """Return what this device is and what is switched on for it, by its key in docs/environment.md.

        Nothing where the training does not use the device. A reading may raise, and changes nothing.
        """


def device_for(device: torch.device) -> Device:
    """Return the plugin of a tensor's device."""
    return _device_of_type(device.type)


@cache
def all_devices() -> tuple[Device, ...]:
    """Return every plugin, the host first."""
    return tuple(_device_of_type(name) for name in plugins.names("devices"))


def devices_of_types(types: Iterable[str]) -> tuple[Device, ...]:
    """Return the plugins of some `tensor.device.type`, the host first."""
    return tuple(dict.fromkeys(map(_device_of_type, ("cpu", *sorted(types)))))


@cache
def _device_of_type(kind: str) -> Device:
    name = kind if kind in plugins.names("devices") else _OTHER
    plugin: Device = plugins.load("devices", name)
    return plugin
