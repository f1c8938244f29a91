"""Traces that running a model leaves in it: gradients, values and attributes, put back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from torchparity.in_lockstep.kept_values import KeptValues

_REGISTRIES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class _Attributes:
    """The attributes of one module, and what is registered in it; hooks are not looked at."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self._bound = module, dict(vars(module))
        # Its registries are of another kind: nothing can be added, and parameters cannot be replaced.
        self._scripted = list(module._buffers.items()) if isinstance(module, torch.jit.ScriptModule) else []
        self._registered: list[tuple[Any, Any]] = [
            (registry, registry.copy())
            for name in _REGISTRIES
            if isinstance(registry := vars(module).get(name), (dict, set))
        ]

    def put_back(self) -> None:
        """Bind every attribute to what it was bound to; one that is new goes."""
        bound = vars(self._module)
        for name in bound.keys() - self._bound.keys():
            del bound[name]
        bound.update(self._bound)
        for registry, content in self._registered:
            registry.clear()
            registry.update(content)
        for name, buffer in self._scripted:
            self._module._buffers[name] = buffer

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors that are plain attributes, neither parameter nor buffer."""
        return (value for value in self._bound.values() if isinstance(value, torch.Tensor))


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
def model_put_back(model: nn.Module) -> Iterator[None]:
    """Give parameters and buffers the values back that they had before, and modules their attributes.

    A lazy module that the block initialises stays initialised.
    """
    attributes = [_Attributes(module) for module in model.modules() if not _is_uninitialised(module)]
    found = [*model.parameters(), *model.buffers(), *(tensor for each in attributes for tensor in each.tensors())]
    values = [KeptValues(tensor) for tensor in {id(tensor): tensor for tensor in found}.values() if not is_lazy(tensor)]
    try:
        yield
    finally:
        for each in attributes:
            each.put_back()
        for kept in values:
            kept.put_back()


def _is_uninitialised(module: nn.Module) -> bool:
    return isinstance(module, LazyModuleMixin) and module.has_uninitialized_params()
