"""The largest relative deviation of two results, in which what is near zero counts as zero."""

from __future__ import annotations

import math

import torch

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
    perturbed = perturbed.detach().to(original.device)
    original = original.detach()
    if original.is_complex() and perturbed.is_complex():
        original, perturbed = torch.view_as_real(original.resolve_conj()), torch.view_as_real(perturbed.resolve_conj())
    if not (original.is_floating_point() and perturbed.is_floating_point()):
        return 0.0 if torch.equal(original, perturbed.to(original.dtype)) else math.inf
    if original.device.type == "cpu" and original.dtype == perturbed.dtype and torch.equal(original, perturbed):
        return 0.0
    floor = _FLOORS.get(torch.promote_types(original.dtype, perturbed.dtype), _OTHER_FLOOR)
    largest = _largest(original, perturbed, floor)
    return largest.item() if largest.device.type == "cpu" else largest


def _largest(original: torch.Tensor, perturbed: torch.Tensor, floor: float) -> torch.Tensor:
    kind = torch.promote_types(original.dtype, perturbed.dtype)
    kind = torch.float32 if kind in _LOW or kind.itemsize == 1 else kind
    left, right = original.to(kind), perturbed.to(kind)
    shrink = torch.nn.functional.softshrink
    moved = (shrink(left, floor) - shrink(right, floor)).abs_()
    deviation = moved.div_(torch.minimum(left.abs(), right.abs()).clamp_(min=floor))
    largest = deviation.amax()
    if largest.device.type == "cpu" and not math.isnan(largest.item()):
        return largest
    same = (left == right) | (left.isnan() & right.isnan())
    return deviation.nan_to_num_(nan=math.inf, posinf=math.inf).masked_fill_(same, 0.0).amax()
