"""The inputs of both models: copies of what the caller gave, where each model can use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

# One argument, several, keyword arguments, or a function that makes any of these for a device.
Inputs = torch.Tensor | Sequence[object] | Mapping[str, object] | Callable[[torch.device], object]


def device_of(model: nn.Module) -> torch.device | None:
    """Return the device of the model's first parameter or buffer; None where it has neither."""
    return next((tensor.device for tensor in _tensors_of(model)), None)


def dtype_of(model: nn.Module) -> torch.dtype | None:
    """Return the dtype of the model's first floating parameter or buffer; None where it has none."""
    return next((tensor.dtype for tensor in _tensors_of(model) if tensor.dtype.is_floating_point), None)


def inputs_for(model: nn.Module, inputs: Inputs, *, cast: bool) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments and keyword arguments of one call: copies on the model's device.

    With `cast` floating tensors get the dtype of the model's first floating parameter or buffer.
    """
    device = device_of(model)
    made: object = inputs(device or torch.device("cpu")) if callable(inputs) else inputs
    copies = _Copies(device, dtype_of(model) if cast else None)
    if isinstance(made, Mapping):
        return [], {str(name): copies.of(value) for name, value in made.items()}
    arguments = made if isinstance(made, (tuple, list)) and not hasattr(made, "_fields") else [made]
    return [copies.of(value) for value in arguments], {}


class _Copies:
    """Copies of nested inputs; a tensor that comes up twice is copied once, so that both are still one."""

    def __init__(self, device: torch.device | None, dtype: torch.dtype | None) -> None:
        self._device, self._dtype = device, dtype
        self._made: dict[int, torch.Tensor] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._made:
                self._made[id(value)] = self._copy(value)
            return self._made[id(value)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.of, value))
        if type(value) in (list, tuple):
            return type(value)(map(self.of, value))
        if type(value) is dict:
            return {key: self.of(entry) for key, entry in value.items()}
        return value

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        dtype = self._dtype if tensor.is_floating_point() else None
        copy = tensor.detach().to(device=self._device, dtype=dtype, copy=True)
        return copy.requires_grad_(tensor.requires_grad)


def _tensors_of(model: nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]
