"""Autocast by kind of device."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def is_any_autocasting() -> bool:
    """Tell whether autocast is switched on for any kind of device: one look, where most trainings use none."""
    return bool(torch._C._is_any_autocast_enabled())


def autocasting_kinds(tensors: Iterable[torch.Tensor]) -> list[str]:
    """Return the kinds of device of some tensors for which autocast is switched on; some have none."""
    if not is_any_autocasting():
        return []
    kinds = sorted({tensor.device.type for tensor in tensors})
    return [kind for kind in kinds if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)]
