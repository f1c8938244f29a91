"""Traces that running a model leaves in it: gradients and buffers, put back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy


class _Buffer(NamedTuple):
    owner: nn.Module
    name: str
    tensor: torch.Tensor
    version: int
    values: torch.Tensor


@contextmanager
def gradients_put_back(model: nn.Module) -> Iterator[None]:
    """Take the gradients away for the time of the block; afterwards every parameter has its own again."""
    before = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in before:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient


@contextmanager
def buffers_put_back(model: nn.Module) -> Iterator[None]:
    """Give every buffer, for example the running mean of a batch norm, the values back that it had before."""
    before = [
        _Buffer(module, name, tensor, tensor._version, tensor.detach().clone())
        for module in model.modules()
        for name, tensor in module._buffers.items()
        if tensor is not None and not is_lazy(tensor)
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer in before:
                if buffer.tensor._version != buffer.version:
                    buffer.tensor.copy_(buffer.values)
                buffer.owner._buffers[buffer.name] = buffer.tensor
