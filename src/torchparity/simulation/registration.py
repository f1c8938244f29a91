"""Tells torch's dispatcher about the kernels of the simulated device."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torchparity.simulation.autocasting import autocast_operators, casting
from torchparity.simulation.composites import WHOLE_ON_THE_HOST, attention, on_the_host
from torchparity.simulation.execution import Execution
from torchparity.simulation.memory import CPU_KEYS
from torchparity.simulation.own_kernels import OWN_KERNELS

_DEVICE, _AUTOGRAD, _AUTOCAST = "PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1"
_COMPOSED_OTHERWISE = frozenset({"aten::_fused_sdp_choice"})


def register_kernels(execution: Execution) -> list[Any]:
    """Register every operator of ATen that the CPU has a kernel of; the libraries hold the registrations."""
    library: Any = torch.library.Library
    rest = library("_", "IMPL")
    rest.fallback(execution.run_unregistered, _DEVICE)
    rest.fallback(torch.library.fallthrough_kernel, _AUTOCAST)
    aten = library("aten", "IMPL")
    for name in _names():
        aten.impl(name, partial(execution.run, _overload(name)), _DEVICE)
    for key in ("Conjugate", "Negative"):  # the copy resolves them itself: else torch copies to resolve, without end
        aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
    aten.impl("_has_compatible_shallow_copy_type", _can_move_in_place, _DEVICE)
    aten.impl("_to_copy", _blocking_copy, _DEVICE)
    aten.impl("_pin_memory", _copy_of, "CPU")  # all memory is the host's; without the device torch refuses to pin
    aten.impl("scaled_dot_product_attention", attention, _AUTOGRAD)
    for name in WHOLE_ON_THE_HOST:
        aten.impl(name, on_the_host(execution, _overload(name)), _AUTOGRAD)
    for name, wanted in autocast_operators().items():
        aten.impl(name, casting(_overload(name), wanted), _AUTOCAST)
    return [rest, aten]


def _can_move_in_place(tensor: torch.Tensor, source: torch.Tensor) -> bool:
    """Let `module.npu()` keep its parameters, as for a GPU: an optimizer may have them already."""
    with torch._C.DisableTorchFunction():
        return tensor.layout is torch.strided and source.layout is torch.strided


def _blocking_copy(tensor: torch.Tensor, *, non_blocking: bool = False, **options: Any) -> torch.Tensor:
    """Copy at once: for another copy torch wants pinned memory, which this device has no allocator of."""
    copy: torch.Tensor = torch.ops.aten._to_copy.default.redispatch(CPU_KEYS, tensor, non_blocking=False, **options)
    return copy


def _copy_of(tensor: torch.Tensor, device: torch.device | None = None) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        return tensor.clone()


def _names() -> list[str]:
    of_cpu: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key("CPU")
    aten = {name.removeprefix("aten::") for name in of_cpu if name.startswith("aten::")}
    return sorted(aten - _COMPOSED_OTHERWISE | set(OWN_KERNELS))


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")
