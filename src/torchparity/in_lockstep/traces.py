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
    version: int | None
    values: torch.Tensor

    def put_back(self) -> None:
        """Give the module its buffer back, with the values that it had; one that nobody wrote is not touched."""
        if self._is_written():
            with torch.inference_mode(self.tensor.is_inference()), torch.no_grad():
                self.tensor.copy_(self.values)
        self.owner._buffers[self.name] = self.tensor

    def _is_written(self) -> bool:
        if _version_of(self.tensor) is None or _version_of(self.tensor) != self.version:
            return True
        # A batch norm writes its running statistics without a new version.
        return self.tensor.layout is torch.strided and not torch.equal(self.tensor, self.values)


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
        _Buffer(module, name, tensor, _version_of(tensor), tensor.detach().clone())
        for module in model.modules()
        for name, tensor in module._buffers.items()
        if tensor is not None and not is_lazy(tensor)
    ]
    try:
        yield
    finally:
        for buffer in before:
            buffer.put_back()


def _version_of(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor was written; None for one of inference mode, which does not count."""
    return None if tensor.is_inference() else tensor._version
