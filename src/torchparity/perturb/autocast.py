"""Autocast by kind of device."""

from __future__ import annotations

import torch


def is_autocasting(kind: str) -> bool:
    """Tell whether autocast is switched on for a kind of device; some have none."""
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
