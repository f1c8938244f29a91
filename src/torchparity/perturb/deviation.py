"""The largest relative deviation of two results, in which what is near zero counts as zero."""

from __future__ import annotations

import math
from typing import Any

import torch

from torchparity.devices import device_for
from torchparity.kernels.deviations import largest_deviation as on_host
from torchparity.tensors.torch_tensors import memory

# Below these a number is as good as zero, or values near zero would have any relative deviation.
_FLOORS = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float64: 1e-8}
_OTHER_FLOOR = 1e-4
_LOW = frozenset({torch.float16, torch.bfloat16})


def largest_deviation(original: torch.Tensor, perturbed: torch.Tensor) -> torch.Tensor | float:
    """Return the largest relative deviation of a perturbed result; a tensor where a device still computes it.

    Where one is not finite and the other not the same the deviation is infinite, as it is of integers that
    differ. A result in higher precision is compared in that, with its floor.
    """
    if original.shape != perturbed.shape:
        return math.inf
    if not original.numel():
        return 0.0
    original, perturbed = original.detach(), perturbed.detach()
    if perturbed.device.type == "cpu" or device_for(original.device).is_host:
        original, perturbed = original.cpu(), perturbed.cpu()  # comparing must not pass through a device's kernels
    perturbed = perturbed.to(original.device)
    if original.is_complex() and perturbed.is_complex():
        original, perturbed = torch.view_as_real(original.resolve_conj()), torch.view_as_real(perturbed.resolve_conj())
    if not (original.is_floating_point() and perturbed.is_floating_point()):
        return _unless_equal(original, perturbed.to(original.dtype))
    if original.device.type == "cpu" and original.dtype == perturbed.dtype and torch.equal(original, perturbed):
        return 0.0
    floor = _FLOORS.get(torch.promote_types(original.dtype, perturbed.dtype), _OTHER_FLOOR)
    if original.device.type == "cpu":
        return on_host(_flat(original), _flat(perturbed), floor)
    return _largest(original, perturbed, floor)


def _flat(tensor: torch.Tensor) -> Any:
    return memory(tensor.resolve_neg().reshape(-1).contiguous())


def _unless_equal(original: torch.Tensor, perturbed: torch.Tensor) -> torch.Tensor | float:
    if original.device.type == "cpu":
        return 0.0 if torch.equal(original, perturbed) else math.inf
    return torch.where((original != perturbed).any(), math.inf, 0.0)


def _largest(original: torch.Tensor, perturbed: torch.Tensor, floor: float) -> torch.Tensor:
    kind = torch.promote_types(original.dtype, perturbed.dtype)
    kind = torch.float32 if kind in _LOW or kind.itemsize == 1 else kind
    left, right = original.to(kind), perturbed.to(kind)
    shrink = torch.nn.functional.softshrink
    moved = shrink(left, floor).sub_(shrink(right, floor)).abs_()
    deviation = moved.div_(torch.minimum(left.abs(), right.abs()).clamp_(min=floor))
    same = (left == right) | (left.isnan() & right.isnan())
    return deviation.nan_to_num_(nan=math.inf, posinf=math.inf).masked_fill_(same, 0.0).amax()
