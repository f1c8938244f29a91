"""The largest relative deviation of two results, in which what is near zero counts as zero."""

from __future__ import annotations

import math
from typing import Any

import torch

from torchparity.devices import device_for
from torchparity.kernels.deviations import largest_deviation as on_host
from torchparity.perturb.fused_deviation import fused_deviation
from torchparity.tensors.torch_tensors import memory

# Below these a number is as good as zero, or values near zero would have any relative deviation.
_FLOORS = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float64: 1e-8}
_OTHER_FLOOR = 1e-4


def largest_deviation(original: torch.Tensor, perturbed: torch.Tensor) -> torch.Tensor | float:
    """Return the largest relative deviation of a perturbed result; a tensor where a device still computes it.

    Where one is not finite and the other not the same the deviation is infinite, as it is of integers that
    differ. A result in higher precision is compared in that, with the floor of float32.
    """
    if original.shape != perturbed.shape:
        return math.inf
    if not original.numel():
        return 0.0
    original, perturbed = original.detach(), perturbed.detach()
    is_host = perturbed.device.type == "cpu" or device_for(original.device).is_host
    if not is_host:
        perturbed = perturbed.to(original.device)
        fused = fused_deviation(original, perturbed, _floor_of(original, perturbed))
        return deviation_on_device(original, perturbed) if fused is None else fused
    return _on_host(original.cpu(), perturbed.cpu())  # comparing must not pass through a device's kernels


def deviation_on_device(original: torch.Tensor, perturbed: torch.Tensor) -> torch.Tensor:
    """Return the same as a tensor, by operators that every device has and that nobody has to wait for."""
    original, perturbed = _real(original), _real(perturbed)
    if not _are_floats(original, perturbed):
        return torch.where((original != perturbed.to(original.dtype)).any(), math.inf, 0.0)
    kind = _common_kind(original, perturbed)
    floor = _floor_of(original, perturbed)
    left, right = original.to(kind), perturbed.to(kind)
    shrink = torch.nn.functional.softshrink
    deviation = shrink(left, floor).sub_(shrink(right, floor))
    scale = torch.fmin(left.abs(), right.abs()).clamp_(min=floor)  # nan where both are, and nowhere else
    deviation.div_(scale).nan_to_num_(nan=math.inf, posinf=math.inf, neginf=-math.inf)
    deviation.masked_fill_((left == right).logical_or_(scale.isnan()), 0.0)
    smallest, largest = torch.aminmax(deviation)
    return torch.maximum(largest, -smallest)


def _on_host(original: torch.Tensor, perturbed: torch.Tensor) -> float:
    original, perturbed = _real(original), _real(perturbed)
    if not _are_floats(original, perturbed):
        return 0.0 if torch.equal(original, perturbed.to(original.dtype)) else math.inf
    if original.dtype == perturbed.dtype and torch.equal(original, perturbed):
        return 0.0
    if original.element_size() == 1 or perturbed.element_size() == 1:
        original, perturbed = original.float(), perturbed.float()
    return on_host(_flat(original), _flat(perturbed), _floor_of(original, perturbed))


def _are_floats(original: torch.Tensor, perturbed: torch.Tensor) -> bool:
    return original.is_floating_point() and perturbed.is_floating_point()


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _flat(tensor: torch.Tensor) -> Any:
    return memory(tensor.resolve_neg().reshape(-1).contiguous())


def _floor_of(original: torch.Tensor, perturbed: torch.Tensor) -> float:
    is_raised = original.dtype != perturbed.dtype
    return _OTHER_FLOOR if is_raised else _FLOORS.get(original.dtype, _OTHER_FLOOR)


def _common_kind(original: torch.Tensor, perturbed: torch.Tensor) -> torch.dtype:
    return torch.float64 if torch.float64 in (original.dtype, perturbed.dtype) else torch.float32
