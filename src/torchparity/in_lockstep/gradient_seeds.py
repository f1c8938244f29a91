"""The backward pass of one model: from the caller's loss, or from fixed gradients of the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from torchparity.errors import ConfigError
from torchparity.in_lockstep.options import Loss


def run_backward(output: Any, loss: Loss | None) -> None:
    """Compute the gradients of everything that the output depends on."""
    if loss is not None:
        value = loss(output)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise ConfigError(f"loss returned a {_described(value)}; it must return a tensor of one number.")
        torch.autograd.backward([value])
        return
    roots = [tensor for tensor in tensors_in(output) if tensor.requires_grad and _is_inexact(tensor)]
    if not roots:
        raise ConfigError(
            "backward=True finds no output that has a gradient; give inputs or parameters that require one, or a loss."
        )
    torch.autograd.backward(roots, [seed_for(tensor) for tensor in roots])


def seed_for(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient that backward begins with at an output: cosines, of a norm near 1.

    Not all ones, as the gradient of a sum has them: through a softmax or a normalization those give zero, and what is
    compared then is rounding alone.
    """
    count = tensor.numel()
    waves = np.cos(np.arange(count, dtype=np.float64)) / max(count, 1) ** 0.5
    # In two moves: not every device has float64.
    return torch.from_numpy(waves).reshape(tensor.shape).to(tensor.dtype).to(tensor.device)


def tensors_in(output: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor of nested outputs, each once."""
    found: dict[int, torch.Tensor] = {}
    waiting = [output]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, torch.Tensor):
            found.setdefault(id(value), value)
        elif isinstance(value, Mapping):
            waiting = [*value.values(), *waiting]
        elif isinstance(value, (list, tuple)):
            waiting = [*value, *waiting]
    yield from found.values()


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _described(value: Any) -> str:
    return f"tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
