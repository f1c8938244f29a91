"""Gelu in the steps that kernels take: 1 is added to an erf or tanh near -1, and little is left of its digits."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

Rounded = Callable[[torch.Tensor], torch.Tensor]

_OF_TANH, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def gelu(inputs: torch.Tensor, approximate: str, rounded: Rounded) -> torch.Tensor:
    """Return gelu with every step rounded."""
    return rounded(0.5 * inputs * _one_more(inputs, approximate, rounded))


def gradient_of_gelu(gradient: torch.Tensor, inputs: torch.Tensor, approximate: str, rounded: Rounded) -> torch.Tensor:
    """Return the gradient of gelu with every step rounded."""
    share = 0.5 * _one_more(inputs, approximate, rounded)
    if approximate == "tanh":
        inner = _OF_TANH * (inputs + _CUBIC * inputs**3)
        slope = 0.5 * rounded(1 - rounded(inner.tanh()) ** 2) * _OF_TANH * (1 + 3 * _CUBIC * inputs**2)
    else:
        slope = torch.exp(-0.5 * inputs**2) / math.sqrt(2 * math.pi)
    return rounded(gradient * rounded(share + rounded(inputs * slope)))


def _one_more(inputs: torch.Tensor, approximate: str, rounded: Rounded) -> torch.Tensor:
    if approximate == "tanh":
        return rounded(1 + rounded(torch.tanh(_OF_TANH * (inputs + _CUBIC * inputs**3))))
    return rounded(1 + rounded(torch.erf(inputs * math.sqrt(0.5))))
